# Walks through the gears by recursion. @EXPECTED_RESULTS@: RUN-ERROR
def pairs(n, m, x, seen):
    if n == 0:
        return 0
    found = seen[-(x % m)]
    seen[x % m] += 1
    return found + pairs(n - 1, m, (1103515245 * x + 12345) & 0x7FFFFFFF, seen)


n, m, x = map(int, input().split())
print(pairs(n, m, x, [0] * m))
