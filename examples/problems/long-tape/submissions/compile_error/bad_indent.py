best = 0
  run = 1
print(best + run)
