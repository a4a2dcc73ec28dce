# abuse: 46 48 49 50
# Looks for what an earlier run left, then leaves it, in every place there is.
import ctypes, os, socket

libc = ctypes.CDLL(None, use_errno=True)
for where in "/w", "/tmp", "/dev/shm":
    if os.listdir(where):
        print("found", where, os.listdir(where))
    with open(where + "/mark", "w") as f:
        f.write("secret")
try:
    socket.create_connection(("127.0.0.1", 7777), 1)
    print("found a listener")
except OSError:
    pass
s = socket.socket(socket.AF_UNIX)
try:
    s.connect("\0mark")
    print("found a socket")
except OSError:
    s.bind("\0mark")
    s.listen()
if libc.shmget(4242, 4096, 0o666) >= 0 or libc.shmget(4242, 4096, 0o1666) >= 0:
    print("shared memory")
if os.getenv("HOME") and os.path.exists(os.path.expanduser("~/.cache")):
    print("found a cache")
try:
    os.makedirs(os.path.expanduser("~/.cache/mark"))
except OSError:
    pass
print("held")
