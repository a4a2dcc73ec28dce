# Starts anew on each line.
import sys

sys.stdin.readline()
best = 0
for line in sys.stdin:
    last, run = -1, 0
    for x in map(int, line.split()):
        run = 1 if x < last else run + 1
        best = max(best, run)
        last = x
print(best)
