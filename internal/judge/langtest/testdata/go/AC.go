package main

import (
	"bufio"
	"fmt"
	"os"
)

func main() {
	var a, b int
	fmt.Fscan(bufio.NewReader(os.Stdin), &a, &b)
	fmt.Println(a + b)
}
