// abuse: 70
// The program asks for a loader that is not there: it compiled well, and cannot be started.
// exit: 127
#include <stdio.h>
const char loader[] __attribute__((section(".interp"))) = "/no/such/loader";
int main(void) { puts("held"); }
