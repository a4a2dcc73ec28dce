// Writes through a null pointer. @EXPECTED_RESULTS@: RUN-ERROR
#include <stdio.h>

int main(void) {
    int n;
    if (scanf("%d", &n) != 1) return 1;
    volatile int *volatile tape = NULL;
    tape[0] = n;
    return 0;
}
