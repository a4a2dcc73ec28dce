# abuse: 33 34 67 68
# Writes to its input, its own program, the interpreter and the C library, by each way there is.
import os

def writable(path, flags=os.O_RDWR):
    try:
        fd = os.open(path, flags)
    except OSError:
        return False
    try:
        os.write(fd, b"#")
        return True
    except OSError:
        return False

program = os.path.abspath(__file__)
for path in "/proc/self/fd/0", "/dev/stdin", "/proc/self/exe", program, "/usr/bin/python3", "/usr/lib/os-release":
    for flags in os.O_RDWR, os.O_WRONLY, os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_TRUNC:
        if writable(path, flags):
            print("wrote", path)
for attempt in (lambda: os.chmod(program, 0o777), lambda: os.unlink(program), lambda: os.rename(program, "/w/x"), lambda: os.symlink("x", os.path.dirname(program) + "/x"), lambda: os.truncate(program, 0), lambda: os.utime(program), lambda: os.setxattr(program, "user.x", b"x")):
    try:
        attempt()
        print("changed the program")
    except OSError:
        pass
# A private copy of a page may be written by this way, never the file.
with open("/proc/self/maps") as maps:
    line = next(l for l in maps if "libc" in l or "ld-linux" in l or "python3" in l)
where, path = int(line.split("-")[0], 16), line.split()[5]
before = open(path, "rb").read(64)
try:
    fd = os.open("/proc/self/mem", os.O_RDWR)
    os.pwrite(fd, b"hacked", where)
except OSError:
    pass
if open(path, "rb").read(64) != before:
    print("changed", path)
if os.readlink("/proc/self/cwd") != "/w":
    print("working directory", os.readlink("/proc/self/cwd"))
print("held")
