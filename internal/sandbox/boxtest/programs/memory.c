// Programs that take memory, descriptors or stack.
#include "program.h"
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
