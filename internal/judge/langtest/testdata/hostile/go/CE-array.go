// abuse: 19 G04
package main

var a = [1 << 28]int64{1<<28 - 1: 1}

func main() { print(a[5]) }
