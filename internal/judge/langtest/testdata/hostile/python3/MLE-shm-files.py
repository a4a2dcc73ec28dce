# abuse: 21 22
block = b"x" * (1 << 20)
for i in range(1000):
    for where in "/dev/shm", "/tmp", "/w":
        try:
            with open(f"{where}/{i}", "wb") as f:
                f.write(block)
        except OSError:
            pass  # full, and the next one is not
