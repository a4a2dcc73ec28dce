// abuse: 37
// compile-cpu: 1500
#include "/dev/urandom"
int main(void) { return 0; }
