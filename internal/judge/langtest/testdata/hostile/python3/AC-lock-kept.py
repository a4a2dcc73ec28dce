# abuse: 47
# Run twice: a lock that the first run took on a file of the system is gone with it.
import fcntl

f = open("/usr/bin/env")
fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
fcntl.fcntl(f, fcntl.F_NOTIFY if hasattr(fcntl, "F_NOTIFY") else fcntl.F_GETFD, 0)
print("held")
