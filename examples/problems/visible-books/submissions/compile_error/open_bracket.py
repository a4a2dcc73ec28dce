heights = list(map(int, input().split())
print(len(heights))
