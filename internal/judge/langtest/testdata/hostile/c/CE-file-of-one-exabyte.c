// abuse: 19 G04
__asm__(".data\n.skip 1 << 60, 1\n");
int main(void) { return 0; }
