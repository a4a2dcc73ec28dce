# Compares each book with the one before it only.
import sys

_, *heights = map(int, sys.stdin.buffer.read().split())
print(1 + sum(a < b for a, b in zip(heights, heights[1:])))
