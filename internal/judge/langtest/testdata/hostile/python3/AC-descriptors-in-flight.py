# abuse: 31
# Descriptors in messages that nobody receives do not count as open.
import array, socket

a, b = socket.socketpair()
sent = 0
try:
    for i in range(20000):
        a.setblocking(False)
        a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 100))])
        sent += 1
except OSError:
    pass
print("held")
