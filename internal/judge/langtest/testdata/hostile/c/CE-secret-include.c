// abuse: 36 X05 X08
// log: shadow
#include "/etc/shadow"
int main(void) { return 0; }
