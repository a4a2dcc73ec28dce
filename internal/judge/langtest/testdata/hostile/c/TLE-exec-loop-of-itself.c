// abuse: 16
#include <unistd.h>
int main(int argc, char **argv) {
	for (volatile int i = 0; i < 1000000; i++)
		;
	execv("/proc/self/exe", argv);
}
