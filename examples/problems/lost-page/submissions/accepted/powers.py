# Steps of halving width, from the first page on.
n = int(input())
page = 1
step = 1 << 19
while True:
    print(page, flush=True)
    word = input()
    if word == "here":
        break
    page += step if word == "after" else -step
    page = min(max(page, 1), n)
    step = max(step // 2, 1)
