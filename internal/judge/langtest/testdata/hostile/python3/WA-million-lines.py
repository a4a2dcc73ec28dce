# abuse: 79
import sys

sys.stdout.write("a\n" * 400_000)
