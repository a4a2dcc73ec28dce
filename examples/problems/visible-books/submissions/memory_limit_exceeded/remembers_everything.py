# Keeps a copy of the shelf for every book that it sees.
n = int(input())
heights = list(map(int, input().split()))
copies = []
while n > 0:
    copies.append(bytearray(b"shelf" * 200_000))
print(len(copies))
