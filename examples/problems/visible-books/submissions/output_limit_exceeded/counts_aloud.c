// Says "one more" for ever.
#include <stdio.h>

int main(void) {
    for (;;) puts("one more");
}
