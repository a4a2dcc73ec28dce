import sys

_, *heights = map(int, sys.stdin.buffer.read().split())
seen = tallest = 0
for height in heights:
    if height > tallest:
        tallest = height
        seen += 1
print(seen)
