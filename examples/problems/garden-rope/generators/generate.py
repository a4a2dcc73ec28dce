"""Writes the test data of this problem, always the same."""
import decimal
import os
import random

random.seed(20250902)
decimal.getcontext().prec = 50
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")


def write(name, pegs):
    path = os.path.join(DATA, name)
    with open(path + ".in", "w") as f:
        f.write(f"{len(pegs)}\n" + "".join(f"{x} {y}\n" for x, y in pegs))
    length = sum(
        decimal.Decimal((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2).sqrt()
        for a, b in zip(pegs, pegs[1:] + pegs[:1])
    )
    with open(path + ".ans", "w") as f:
        f.write(f"{length:.12f}\n")


def pegs(n, reach):
    return [(random.randint(-reach, reach), random.randint(-reach, reach)) for _ in range(n)]


write("sample/1", [(0, 0), (3, 0), (3, 4)])
write("sample/2", [(0, 0), (1, 1)])
write("secret/01-same-place", [(5, -7)] * 4)
write("secret/02-far-apart", [(-10000, -10000), (10000, 10000)])
write("secret/03-unit-square", [(0, 0), (0, 1), (1, 1), (1, 0)])
write("secret/04-small", pegs(7, 3))
write("secret/05-medium", pegs(300, 100))
write("secret/06-large", pegs(5000, 10000))
write("secret/07-large-steps", [(i % 71, i // 71) for i in range(5000)])
