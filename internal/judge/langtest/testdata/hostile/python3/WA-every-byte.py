# abuse: 29
import sys

sys.stdout.buffer.write(b"held\0" + bytes(range(256)) * 512)
