// abuse: 37
// log: /dev/tty
#include "/dev/tty"
int main(void) { return 0; }
