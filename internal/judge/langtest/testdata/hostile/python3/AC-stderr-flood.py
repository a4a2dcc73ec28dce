# abuse: 27
import os

for i in range(200):
    os.write(2, b"x" * 65536)
print("held")
