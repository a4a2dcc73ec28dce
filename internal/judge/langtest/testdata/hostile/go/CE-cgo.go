// abuse: 36 40 75
package main

// #cgo LDFLAGS: -Wl,--version-script=/etc/shadow
// #include "/etc/shadow"
import "C"

func main() {}
