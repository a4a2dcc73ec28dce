// Divides 0 by 0 on the way and prints nan.
#include <stdio.h>

int main(void) {
    volatile double zero = 0;
    printf("%f\n", zero / zero);
    return 0;
}
