// Looks at all pairs, five thousand million of them.
#include <stdio.h>

static long long gears[100000];

int main(void) {
    long long n, m, x, pairs = 0;
    if (scanf("%lld %lld %lld", &n, &m, &x) != 3) return 1;
    for (int i = 0; i < n; i++) {
        gears[i] = x;
        x = (1103515245 * x + 12345) % 2147483648LL;
        for (int j = 0; j < i; j++) pairs += (gears[i] + gears[j]) % m == 0;
    }
    printf("%lld\n", pairs);
    return 0;
}
