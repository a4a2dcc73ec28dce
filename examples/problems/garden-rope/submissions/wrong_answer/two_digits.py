# Rounds to two digits, which is not enough.
import math
import sys

n, *numbers = map(int, sys.stdin.buffer.read().split())
pegs = list(zip(numbers[::2], numbers[1::2]))
print(f"{sum(math.dist(a, b) for a, b in zip(pegs, pegs[1:] + pegs[:1])):.2f}")
