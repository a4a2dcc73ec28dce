#include <stdio.h>

int main(void) {
    static long long seen[1000];
    long long n, m, x, pairs = 0;
    if (scanf("%lld %lld %lld", &n, &m, &x) != 3) return 1;
    while (n-- > 0) {
        pairs += seen[(m - x % m) % m];
        seen[x % m]++;
        x = (1103515245 * x + 12345) % 2147483648LL;
    }
    printf("%lld\n", pairs);
    return 0;
}
