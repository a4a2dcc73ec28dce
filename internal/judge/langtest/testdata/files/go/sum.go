package main

func sum(a, b int) int { return a + b }
