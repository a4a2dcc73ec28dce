# As the C solution, but starts with the other hand.
input()
balance = 0
baskets = []
for weight in map(int, input().split()):
    left = balance < 0
    balance += weight if left else -weight
    baskets.append("1" if left else "2")
print(*baskets)
