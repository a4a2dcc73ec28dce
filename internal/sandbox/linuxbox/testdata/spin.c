/* spin N: about N million steps, then prints the CPU time that the kernel has
 * accounted to it, in nanoseconds; without N, for ever. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int main(int argc, char **argv) {
    long steps = argc > 1 ? atol(argv[1]) * 1000000 : -1;
    for (volatile long i = 0; i != steps; i++) {
    }
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    printf("%ld\n", used.tv_sec * 1000000000 + used.tv_nsec);
    return 0;
}
