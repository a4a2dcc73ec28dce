#include <stdio.h>

int main(void) {
    int n, seen = 0;
    long tallest = 0, height;
    if (scanf("%d", &n) != 1) return 1;
    while (n-- > 0 && scanf("%ld", &height) == 1) {
        if (height > tallest) {
            tallest = height;
            seen++;
        }
    }
    printf("%d\n", seen);
    return 0;
}
