# abuse: 62
import time

for clock in time.CLOCK_REALTIME,:
    try:
        time.clock_settime(clock, 0)
        print("set the clock")
    except OSError:
        pass
print("held")
