# abuse: 1 15
# No signal handler of the interpreter runs within this one operation.
import signal

for s in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(s, signal.SIG_IGN)
print(str(7**40_000_000)[:1])
