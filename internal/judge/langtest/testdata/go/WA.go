package main

func main() { println("stderr is no output") }
