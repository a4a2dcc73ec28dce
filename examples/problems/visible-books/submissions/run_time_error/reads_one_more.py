# Asks for a line that is not there. @EXPECTED_RESULTS@: RUN-ERROR
n = int(input())
heights = list(map(int, input().split()))
extra = int(input())
print(n, heights, extra)
