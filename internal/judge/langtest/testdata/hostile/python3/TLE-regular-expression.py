# abuse: 1
import re

re.match("(a+)+$", "a" * 64 + "b")
print("held")
