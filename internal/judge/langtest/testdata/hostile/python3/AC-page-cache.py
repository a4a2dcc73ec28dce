# abuse: 78
# Reads more of the system's files than it may have memory.
import os

total = 0
for where, dirs, files in os.walk("/usr/lib"):
    for name in files:
        try:
            with open(os.path.join(where, name), "rb") as f:
                while chunk := f.read(1 << 20):
                    total += len(chunk)
        except OSError:
            pass
        if total > 160 << 20:
            break
    if total > 160 << 20:
        break
print("held")
