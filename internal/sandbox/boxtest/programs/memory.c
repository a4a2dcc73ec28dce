// Programs that take memory, descriptors or stack.
#include "program.h"
#include <sys/inotify.h>
#include <sys/mman.h>

static char *map(size_t n) {
	return mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

PROGRAM(touch_mib) {
	size_t n = (size_t)atol(argv[1]) << 20;
	volatile char *p = map(n);
	if (p == MAP_FAILED)
		return 3;
	for (size_t i = 0; i < n; i += 4096)
		p[i] = 1;
	puts("touched");
	return 0;
}

// Has it only for an instant, and lives on.
PROGRAM(spike_mib) {
	size_t n = (size_t)atol(argv[1]) << 20;
	volatile char *p = map(n);
	if (p == MAP_FAILED)
		return 3;
	for (size_t i = 0; i < n; i += 4096)
		p[i] = 1;
	munmap((void *)p, n);
	puts("let go");
	return 0;
}

PROGRAM(reserve_only) {
	char *p = map(64ul << 30);
	check(p != MAP_FAILED, "address space is limited: some runtimes reserve a lot");
	return verdict();
}

// The child is killed for memory; the parent carries on and ends well.
PROGRAM(child_touches) {
	if (fork() == 0)
		return run_touch_mib(argc, argv);
	wait(NULL);
	puts("42");
	return 0;
}

// Memory outside every heap.
PROGRAM(memfd_hog) {
	int fd = syscall(SYS_memfd_create, "hog", 0);
	static char block[1 << 20];
	memset(block, 1, sizeof block);
	for (;;)
		if (write(fd, block, sizeof block) < 0)
			return 3;
}

static int deeper(volatile char *above, long left) {
	volatile char frame[1024];
	frame[0] = above[0] + 1;
	if (left == 0)
		return frame[0];
	return deeper(frame, left - 1) + frame[0];
}

PROGRAM(recurse_kib) {
	volatile char c = 1;
	int r = deeper(&c, atol(argv[1]));
	printf("reached %d\n", r != 7);
	return 0;
}

PROGRAM(open_many) {
	int n = 0;
	while (open("/dev/null", O_RDONLY) >= 0)
		n++;
	printf("%d %d\n", n, errno == EMFILE);
	return 0;
}

// Reads a large file under a small limit: page cache is not the program's fault.
PROGRAM(read_file) {
	static char block[1 << 16];
	int fd = open(argv[1], O_RDONLY);
	long total = 0;
	for (ssize_t n; (n = read(fd, block, sizeof block)) > 0;)
		total += n;
	printf("%ld\n", total);
	return 0;
}

// Reads one byte of each of very many pieces: no page of its own, but the
// tables that say where pages are.
PROGRAM(page_table_hog) {
	const size_t piece = 2 << 20, n = 512ul << 30;
	volatile char *p = mmap(NULL, n, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return 3;
	for (size_t i = 0; i < n; i += piece)
		(void)p[i];
	return 0;
}

// Objects of the kernel that are counted by user, taken until none is left.
PROGRAM(object_bomb) {
	timer_t timer;
	struct sigevent quiet = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
	sigset_t blocked;
	sigfillset(&blocked);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	for (int i = 0; i < 200000 && timer_create(CLOCK_MONOTONIC, &quiet, &timer) == 0; i++)
		;
	union sigval v = {0};
	for (int i = 0; i < 200000 && sigqueue(getpid(), SIGRTMIN, v) == 0; i++)
		;
	int fd;
	while ((fd = inotify_init()) >= 0)
		for (int i = 0; i < 200; i++)
			if (inotify_add_watch(fd, i % 2 ? "/usr" : "/w", IN_ALL_EVENTS) < 0)
				break;
	check(errno == EMFILE, "inotify without a limit");
	check(mlock(&v, sizeof v) != 0, "locked memory");
	return verdict();
}
