// abuse: 74 V01 V12
// signal: 9
#include <signal.h>
#include <stdio.h>
int main(void) {
	fputs("Killed\nMemory cgroup out of memory: Killed process\n", stderr);
	raise(SIGKILL);
}
