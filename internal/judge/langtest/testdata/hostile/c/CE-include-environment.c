// abuse: 36 37
// log: environ
#include "/proc/1/environ"
int main(void) { return 0; }
