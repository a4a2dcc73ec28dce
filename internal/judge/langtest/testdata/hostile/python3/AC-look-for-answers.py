# abuse: 35 X08 X11
# Walks all that there is: no tests, no other program's files, nothing to write to.
import os

allowed = ("/w", "/tmp", "/dev/shm")
for top in "/", "/proc/self/fd", "/proc/1":
    for where, dirs, files in os.walk(top):
        if where == "/":
            dirs[:] = [d for d in dirs if d not in ("usr", "proc", "lib")]
        for name in dirs + files:
            path = os.path.join(where, name)
            if name.endswith((".ans", ".in", ".key", ".pem")) or "secret" in name or name in ("shadow", "machine-id", ".ssh", ".bash_history"):
                print("found", path)
            if os.path.islink(path) or path.startswith(("/dev/", "/proc/")) or path in allowed or where.startswith(allowed):
                continue
            if os.access(path, os.W_OK):
                print("may write", path)
for way_out in "/proc/self/cwd/../..", "/proc/self/root/..", "/dev/fd/../../..":
    try:
        if os.stat(way_out).st_ino != os.stat("/").st_ino and os.path.exists(way_out + "/root"):
            print("left the root by", way_out)
    except OSError:
        pass
for pid in os.listdir("/proc"):
    if pid.isdigit() and int(pid) != os.getpid():
        print("sees process", pid)
for name in os.listdir("/proc/self/fd"):
    if int(name) > 2 and os.path.exists("/proc/self/fd/" + name) and not os.readlink("/proc/self/fd/" + name).startswith("/proc/"):
        print("descriptor", name)
print("held")
