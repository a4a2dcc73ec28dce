import sums

print(sums.total(*map(int, input().split())))
