# abuse: 22
import mmap

m = mmap.mmap(-1, 1 << 30)
while m.write(b"x" * (1 << 20)):
    pass
