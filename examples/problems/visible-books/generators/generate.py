"""Writes the test data of this problem, always the same."""
import os
import random

random.seed(20250901)
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")


def write(name, heights):
    path = os.path.join(DATA, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".in", "w") as f:
        f.write(f"{len(heights)}\n{' '.join(map(str, heights))}\n")
    seen = sum(all(h > other for other in set(heights[:i])) for i, h in enumerate(heights)) if len(heights) <= 1000 else records(heights)
    with open(path + ".ans", "w") as f:
        f.write(f"{seen}\n")


def records(heights):
    count, tallest = 0, 0
    for h in heights:
        if h > tallest:
            count, tallest = count + 1, h
    return count


write("sample/1", [3, 1, 4, 1, 5])
write("sample/2", [2, 2, 2])
write("secret/01-one", [10**9])
write("secret/02-equal", [7] * 500)
write("secret/03-rising", list(range(1, 801)))
write("secret/04-falling", list(range(800, 0, -1)))
write("secret/05-last-is-tallest", [5, 5, 4, 4, 6])
write("secret/06-random", [random.randint(1, 30) for _ in range(1000)])
write("secret/07-large", [random.randint(1, 10**9) for _ in range(20000)])
write("secret/08-large-steps", [i // 3 + 1 for i in range(20000)])
