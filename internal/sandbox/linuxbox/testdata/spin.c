/* spin N: about N million steps; without N, for ever. */
#include <stdlib.h>
int main(int argc, char **argv) {
    long steps = argc > 1 ? atol(argv[1]) * 1000000 : -1;
    for (volatile long i = 0; i != steps; i++) {
    }
    return 0;
}
