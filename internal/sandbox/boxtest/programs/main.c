#include "program.h"

static struct {
	const char *name;
	program *run;
} programs[256];
static int count, breaches;

void add_program(const char *name, program *p) {
	programs[count].name = name;
	programs[count++].run = p;
}

double cpu_seconds(void) {
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

void burn(double seconds) {
	double end = cpu_seconds() + seconds;
	for (volatile unsigned x = 0;; x++)
		if (x % 1024 == 0 && cpu_seconds() >= end)
			return;
}

void check(int ok, const char *what) {
	if (!ok) {
		breaches++;
		printf("BREACH %s (errno %d)\n", what, errno);
	}
}

int verdict(void) {
	if (!breaches)
		puts("held");
	fflush(stdout);
	return 0;
}

int main(int argc, char **argv) {
	for (int i = 0; argc > 1 && i < count; i++)
		if (!strcmp(programs[i].name, argv[1]))
			return programs[i].run(argc - 1, argv + 1);
	fprintf(stderr, "no such program\n");
	return 99;
}
