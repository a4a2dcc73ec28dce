// Has room for 1000 books and says so. @EXPECTED_RESULTS@: RUN-ERROR
#include <assert.h>
#include <stdio.h>

int main(void) {
    static long shelf[1000];
    int n, seen = 0;
    long tallest = 0;
    if (scanf("%d", &n) != 1) return 1;
    assert(n <= 1000);
    for (int i = 0; i < n; i++) {
        if (scanf("%ld", &shelf[i]) != 1) return 1;
        if (shelf[i] > tallest) {
            tallest = shelf[i];
            seen++;
        }
    }
    printf("%d\n", seen);
    return 0;
}
