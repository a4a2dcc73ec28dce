# abuse: 69
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
for path in b"", b"x" * 100000, b"\xff\xfe\xc0\x80", b"/" * 5000, b"../" * 2000:
    if libc.open(path, 0) >= 0:
        print("opened")
if libc.open(ctypes.c_void_p(1), 0) >= 0:
    print("opened a bad pointer")
print("held")
