# Goes around the bed without end.
import sys

n, *numbers = map(int, sys.stdin.buffer.read().split())
peg = 0
while True:
    peg = (peg + 1) % n
