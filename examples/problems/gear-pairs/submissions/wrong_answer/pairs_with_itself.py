# Lets a gear make a pair with itself.
def main():
    n, m, x = map(int, input().split())
    seen = [0] * m
    pairs = 0
    for _ in range(n):
        r = x % m
        seen[r] += 1
        pairs += seen[-r]
        x = (1103515245 * x + 12345) & 0x7FFFFFFF
    print(pairs)


main()
