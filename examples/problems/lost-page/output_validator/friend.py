"""Talks with a submission: has n and the page in the input file."""

import sys

TRIES = 25


def end(accepted, message):
    with open(sys.argv[3] + "judgemessage.txt", "w") as f:
        f.write(message)
    sys.exit(42 if accepted else 43)


with open(sys.argv[1]) as f:
    n, page = map(int, f.read().split())
print(n, flush=True)
for tries in range(1, TRIES + 1):
    line = sys.stdin.readline()
    if not line:
        end(False, f"no page named at try {tries}")
    word = line.strip()
    if not (word.isascii() and word.isdigit() and len(word) <= 7 and 1 <= int(word) <= n):
        end(False, f"not a page at try {tries}: {word[:20]!r}")
    if int(word) == page:
        print("here", flush=True)
        if sys.stdin.read().strip():
            end(False, "more was said after the letter was found")
        end(True, f"found at try {tries}")
    print("before" if page < int(word) else "after", flush=True)
end(False, f"not found in {TRIES} tries")
