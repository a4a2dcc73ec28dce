// Programs that break several limits: one after the other, or all at once.
#include "program.h"
#include <pthread.h>
#include <sys/mman.h>

static void *breach(void *what) {
	const char *kind = what;
	if (!strcmp(kind, "cpu"))
		for (volatile unsigned x = 0;; x++)
			;
	if (!strcmp(kind, "wall"))
		for (;;)
			pause();
	if (!strcmp(kind, "output")) {
		static char block[1 << 16];
		for (;;)
			(void)!write(1, block, sizeof block);
	}
	if (!strcmp(kind, "memory"))
		for (;;) {
			volatile char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			for (int i = 0; p != MAP_FAILED && i < 1 << 20; i += 4096)
				p[i] = 1;
		}
	if (!strcmp(kind, "exit"))
		_exit(3);
	if (!strcmp(kind, "signal"))
		raise(SIGSEGV);
	return NULL;
}

// The first argument's breach; were it survived, the second's.
PROGRAM(breach_then) {
	breach(argv[1]);
	breach(argv[2]);
	return 0;
}

PROGRAM(breach_both) {
	pthread_t a, b;
	pthread_create(&a, NULL, breach, argv[1]);
	pthread_create(&b, NULL, breach, argv[2]);
	pthread_join(a, NULL);
	pthread_join(b, NULL);
	return 0;
}

// Breaks its file limit unharmed, then does what it is told.
PROGRAM(file_then) {
	static char block[1 << 16];
	signal(SIGXFSZ, SIG_IGN);
	int fd = open("/w/large", O_CREAT | O_WRONLY, 0600);
	while (write(fd, block, sizeof block) > 0)
		;
	breach(argv[1]);
	return 0;
}

// Touches so many KiB, then computes until it has used so much CPU time: at
// the limit of both, if one asks for that.
PROGRAM(touch_then_burn) {
	size_t n = (size_t)atol(argv[1]) << 10;
	volatile char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; i < n; i += 4096)
		p[i] = 1;
	while (cpu_seconds() < atof(argv[2]))
		;
	return 0;
}
