// abuse: 36
// log: pattern
package main

import _ "embed"

//go:embed ../../etc/passwd
var secret string

func main() { print(secret) }
