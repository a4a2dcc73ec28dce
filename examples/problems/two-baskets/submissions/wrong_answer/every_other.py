# Alternates, whatever the stones weigh.
n = int(input())
print(*[1 + i % 2 for i in range(n)])
