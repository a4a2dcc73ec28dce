import sys


def main():
    sys.stdin.readline()
    last, run, best = -1, 0, 0
    for line in sys.stdin:
        for x in map(int, line.split()):
            if x < last:
                if run > best:
                    best = run
                run = 0
            run += 1
            last = x
    print(max(best, run))


main()
