#include <stdio.h>

int main(void) {
    int seen = 0
    printf("%d\n", seen);
    return 0;
}
