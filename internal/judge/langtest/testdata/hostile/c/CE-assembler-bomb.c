// abuse: 38 19 G04
// compile-cpu: 1500
__asm__(".rept 100000\n.rept 100000\nnop\n.endr\n.endr\n");
int main(void) { return 0; }
