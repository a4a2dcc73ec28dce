# Leaves after the first try.
n = int(input())
print((n + 1) // 2, flush=True)
input()
