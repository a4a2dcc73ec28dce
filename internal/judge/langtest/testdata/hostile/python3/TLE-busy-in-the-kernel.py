# abuse: 62
# Time in the kernel is time.
import os

zero, null = os.open("/dev/zero", os.O_RDONLY), os.open("/dev/null", os.O_WRONLY)
buffer = bytearray(16 << 20)
while True:
    os.readv(zero, [buffer])
    os.write(null, buffer)
