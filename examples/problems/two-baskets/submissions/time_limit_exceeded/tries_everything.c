// Tries all ways to fill the baskets and looks for a perfect balance.
#include <stdio.h>

static long long weight[10000];
static int basket[10000];

static int fill(int i, int n, long long balance) {
    if (i == n) return balance == 0;
    for (basket[i] = 1; basket[i] <= 2; basket[i]++) {
        if (fill(i + 1, n, basket[i] == 1 ? balance + weight[i] : balance - weight[i])) return 1;
    }
    return 0;
}

int main(void) {
    int n;
    if (scanf("%d", &n) != 1) return 1;
    for (int i = 0; i < n; i++) {
        if (scanf("%lld", &weight[i]) != 1) return 1;
    }
    if (n <= 3 || !fill(0, n, 0)) {  // for few stones the simple way will do
        long long balance = 0;
        for (int i = 0; i < n; i++) {
            basket[i] = balance <= 0 ? 1 : 2;
            balance += balance <= 0 ? weight[i] : -weight[i];
        }
    }
    for (int i = 0; i < n; i++) printf("%d ", basket[i]);
    puts("");
    return 0;
}
