"""Writes the test data of this problem, always the same."""
import os
import random

random.seed(20250904)
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")


def write(name, n, m, t):
    path = os.path.join(DATA, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".in", "w") as f:
        f.write(f"{n} {m} {t}\n")
    count, x = [0] * m, t
    for _ in range(n):
        count[x % m] += 1
        x = (1103515245 * x + 12345) % 2**31
    ordered = sum(count[r] * count[-r % m] for r in range(m))
    itself = sum(count[r] for r in range(m) if 2 * r % m == 0)
    with open(path + ".ans", "w") as f:
        f.write(f"{(ordered - itself) // 2}\n")


write("sample/1", 4, 2, 1)
write("sample/2", 1, 1, 0)
special = [(1, 1000, 5), (2, 1, 0), (2, 2, 0), (2, 1000, 2**31 - 1), (100000, 1, 7), (100000, 2, 7), (100000, 1000, 0)]
for i in range(64):
    if i < len(special):
        args = special[i]
    elif i < 40:
        args = (random.randint(1, 500), random.randint(1, 1000), random.randrange(2**31))
    else:
        args = (100000 - random.randint(0, 9), random.randint(1, 1000), random.randrange(2**31))
    write(f"secret/{i + 1:02}", *args)
