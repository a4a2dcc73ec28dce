// abuse: 38
// compile-cpu: 1500
#if __INCLUDE_LEVEL__ < 26
#include __FILE__
#include __FILE__
#endif
int main(void) { return 0; }
