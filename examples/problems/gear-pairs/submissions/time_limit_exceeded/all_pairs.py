# Looks at all pairs.
n, m, x = map(int, input().split())
gears = []
pairs = 0
for _ in range(n):
    pairs += sum((x + y) % m == 0 for y in gears)
    gears.append(x)
    x = (1103515245 * x + 12345) & 0x7FFFFFFF
print(pairs)
