# Prints the right answer and then says that it failed. @EXPECTED_RESULTS@: RUN-ERROR
import sys

input()
balance = 0
for weight in map(int, input().split()):
    print(1 if balance <= 0 else 2)
    balance += weight if balance <= 0 else -weight
sys.exit(3)
