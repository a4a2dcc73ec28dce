package main

func main() { missing() }
