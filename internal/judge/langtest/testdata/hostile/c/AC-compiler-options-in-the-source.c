// abuse: 40
#pragma GCC optimize("O3,-fplugin=/src/main.c,-o/etc/passwd")
#pragma comment(linker, "/etc/passwd")
#pragma GCC dependency "main.c"
#include <stdio.h>
__asm__(".ident \"$(reboot)`reboot`\"");
int main(void) { puts("held"); }
