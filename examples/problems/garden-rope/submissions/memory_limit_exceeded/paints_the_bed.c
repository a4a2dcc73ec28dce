// Paints a picture of the garden, one long for each place.
#include <stdio.h>

enum { SIDE = 7001 };
static volatile long bed[SIDE][SIDE];

int main(void) {
    for (int x = 0; x < SIDE; x++) {
        for (int y = 0; y < SIDE; y++) bed[x][y] = x ^ y;
    }
    printf("%ld\n", bed[1][2]);
    return 0;
}
