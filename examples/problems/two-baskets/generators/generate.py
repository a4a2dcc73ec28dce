"""Writes the test data of this problem, always the same."""
import os
import random

random.seed(20250903)
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")


def write(name, weights):
    path = os.path.join(DATA, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".in", "w") as f:
        f.write(f"{len(weights)}\n{' '.join(map(str, weights))}\n")
    baskets, balance = [], 0
    for w in weights:
        baskets.append(1 if balance <= 0 else 2)
        balance += w if balance <= 0 else -w
    assert abs(balance) <= max(weights)
    with open(path + ".ans", "w") as f:
        f.write(" ".join(map(str, baskets)) + "\n")


def stones(n, heaviest):
    return [random.randint(1, heaviest) for _ in range(n)]


write("sample/1", [2, 3, 4])
write("sample/2", [5, 1, 1])
write("secret/01-one", [10**9])
write("secret/02-two", [1, 10**9])
write("secret/03-equal", [6] * 101)
write("secret/04-light-then-heavy", [1] * 50 + [1000])
write("secret/05-powers", [2**i for i in range(30)])
write("secret/06-random", stones(500, 20))
write("secret/07-large", stones(10000, 10**9))
write("secret/08-rising", list(range(1, 10001)))
