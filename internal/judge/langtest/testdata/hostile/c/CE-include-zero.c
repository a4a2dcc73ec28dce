// abuse: 37
// compile-cpu: 1500
#include "/dev/zero"
int main(void) { return 0; }
