// abuse: 37
// The compiler's own input, output and descriptors are empty, and nothing waits for them.
#include "/dev/stdin"
#include "/proc/self/fd/0"
#include <stdio.h>
int main(void) { puts("held"); }
