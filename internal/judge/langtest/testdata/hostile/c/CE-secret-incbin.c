// abuse: 36
// log: machine-id
__asm__(".section .rodata\n.globl secret\nsecret: .incbin \"/etc/machine-id\"\n");
extern const char secret[];
int main(void) { return secret[0]; }
