"""Writes the test data of this problem, always the same."""
import os
import random

random.seed(20250905)
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")


def write(name, tape):
    path = os.path.join(DATA, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".in", "w") as f:
        f.write(f"{len(tape)}\n")
        for i in range(0, len(tape), 1000):
            f.write(" ".join(map(str, tape[i : i + 1000])) + "\n")
    best, start = 0, 0
    for i, x in enumerate(tape):
        if i and x < tape[i - 1]:
            start = i
        best = max(best, i - start + 1)
    with open(path + ".ans", "w") as f:
        f.write(f"{best}\n")


write("sample/1", [3, 1, 1, 4, 2])
write("secret/01-one", [0])
write("secret/02-falling", list(range(3000, 0, -1)))
write("secret/03-across-lines", list(range(1500)) + list(range(700, 1300)))
write("secret/04-warming", [i * 2 for i in range(150000)])
write("secret/05-random", [random.randint(0, 999999) for _ in range(500000)])
