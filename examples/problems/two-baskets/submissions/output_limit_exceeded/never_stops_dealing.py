# Deals the stones for ever.
while True:
    print("1 2 " * 1000)
