// Gives each stone to the hand that carries less.
#include <stdio.h>

int main(void) {
    int n;
    long long balance = 0, weight;
    if (scanf("%d", &n) != 1) return 1;
    for (int i = 0; i < n; i++) {
        if (scanf("%lld", &weight) != 1) return 1;
        int left = balance <= 0;
        balance += left ? weight : -weight;
        printf("%d%c", left ? 1 : 2, i + 1 < n ? ' ' : '\n');
    }
    return 0;
}
