# abuse: 28
print("held")
print(" " * (10 << 20))
