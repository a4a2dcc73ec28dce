#include <stdio.h>

int main(void) {
    int n, last = -1, x, run = 0, best = 0;
    if (scanf("%d", &n) != 1) return 1;
    while (n-- > 0 && scanf("%d", &x) == 1) {
        run = x < last ? 1 : run + 1;
        if (run > best) best = run;
        last = x;
    }
    printf("%d\n", best);
    return 0;
}
