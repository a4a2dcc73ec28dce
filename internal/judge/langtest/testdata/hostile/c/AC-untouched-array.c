// abuse: 18 19
// Memory that is never touched is none.
#include <stdio.h>
char a[1u << 30];
int main(void) {
	volatile char *p = a;
	puts(p[5] ? "" : "held");
}
