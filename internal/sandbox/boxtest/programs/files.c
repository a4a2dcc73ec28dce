// Programs that go for files: the host's, the judge's, those of other runs.
#include "program.h"
#include <dirent.h>
#include <sys/ioctl.h>

PROGRAM(scan_fds) {
	for (int fd = 3; fd < 4096; fd++)
		if (fcntl(fd, F_GETFD) >= 0) {
			char what[64];
			snprintf(what, sizeof what, "descriptor %d is open", fd);
			check(0, what);
		}
	return verdict();
}

PROGRAM(reopen_stdin) {
	check(open("/proc/self/fd/0", O_RDWR) < 0, "input opened for writing");
	check(write(0, "x", 1) < 0, "input written");
	return verdict();
}

PROGRAM(rewrite_self) {
	check(open("/proc/self/exe", O_WRONLY) < 0, "own executable opened for writing");
	check(open("/box/hostile", O_WRONLY) < 0, "program opened for writing");
	check(unlink("/box/hostile") != 0, "program removed");
	check(rename("/box/hostile", "/box/x") != 0, "program renamed");
	check(open("/box/new", O_CREAT | O_WRONLY, 0600) < 0, "file made beside the program");
	check(chmod("/box/hostile", 0777) != 0, "program's mode changed");
	return verdict();
}

PROGRAM(host_files) {
	const char *gone[] = {
		"/root", "/home", "/work", "/var", "/run", "/sys", "/boot", "/mnt", "/opt", "/srv",
		"/etc/shadow", "/etc/ssh", "/etc/machine-id", "/dev/sda", "/dev/vda", "/dev/mem", "/dev/kmsg",
		"/dev/tty", "/dev/ptmx", "/dev/pts", "/var/run/docker.sock", "/proc/1/cwd", "/.dockerenv",
	};
	for (unsigned i = 0; i < sizeof gone / sizeof *gone; i++)
		check(access(gone[i], F_OK) != 0, gone[i]);
	const char *fixed[] = {"/", "/etc", "/etc/passwd", "/usr", "/usr/bin", "/bin", "/box", "/dev", "/proc", "/data", "/src"};
	for (unsigned i = 0; i < sizeof fixed / sizeof *fixed; i++) {
		char path[128];
		snprintf(path, sizeof path, "%s/new", fixed[i]);
		check(open(path, O_CREAT | O_WRONLY, 0600) < 0, path);
		check(access(fixed[i], W_OK) != 0, fixed[i]);
	}
	// The way up ends at the root.
	check(chdir("../../../../../../..") == 0, "chdir up");
	check(access("root", F_OK) != 0, "left the root");
	return verdict();
}

// Devices that programs rely on work, and are the right ones.
PROGRAM(devices) {
	char c = 1;
	int fd = open("/dev/zero", O_RDONLY);
	check(read(fd, &c, 1) == 1 && c == 0, "/dev/zero");
	check(write(open("/dev/null", O_WRONLY), "x", 1) == 1, "/dev/null");
	check(write(open("/dev/full", O_WRONLY), "x", 1) < 0 && errno == ENOSPC, "/dev/full");
	check(read(open("/dev/urandom", O_RDONLY), &c, 1) == 1, "/dev/urandom");
	check(write(open("/dev/stdout", O_WRONLY), "", 0) == 0, "/dev/stdout");
	check(access("/dev/fd/1", F_OK) == 0, "/dev/fd");
	int shm = open("/dev/shm/x", O_CREAT | O_RDWR, 0600);
	check(shm >= 0, "/dev/shm");
	return verdict();
}

static long fill(const char *path) {
	static char block[1 << 16];
	long total = 0;
	int fd = open(path, O_CREAT | O_WRONLY, 0600);
	for (ssize_t n; (n = write(fd, block, sizeof block)) > 0;)
		total += n;
	return total;
}

// Fills a file system with files of a size each of which is allowed.
PROGRAM(fill_disk) {
	long total = 0, n;
	char path[64];
	signal(SIGXFSZ, SIG_IGN);
	for (int i = 0; i < 64; i++) {
		snprintf(path, sizeof path, "%s/f%d", argv[1], i);
		total += n = fill(path);
		if (n == 0)
			break;
	}
	printf("%ld %d\n", total, errno == ENOSPC);
	return 0;
}

PROGRAM(inode_bomb) {
	char path[64];
	long n = 0;
	for (;; n++) {
		snprintf(path, sizeof path, "/w/%ld", n);
		int fd = open(path, O_CREAT | O_WRONLY, 0600);
		if (fd < 0)
			break;
		close(fd);
	}
	printf("%ld %d\n", n, errno == ENOSPC);
	return 0;
}

// A file larger than a file may be.
PROGRAM(large_file) {
	fill("/w/large");
	return 0;
}

PROGRAM(large_file_ignoring) {
	signal(SIGXFSZ, SIG_IGN);
	fill("/w/large");
	return 0;
}

PROGRAM(deep_directory) {
	int n = 0;
	while (n < 100000 && mkdir("d", 0700) == 0 && chdir("d") == 0)
		n++;
	printf("%d\n", n);
	return 0;
}

PROGRAM(awkward_names) {
	char longest[256];
	memset(longest, 'n', 255);
	longest[255] = 0;
	const char *names[] = {"-rf", "new\nline", " ", "\xff\xfe", "$(reboot)", longest};
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		close(open(names[i], O_CREAT | O_WRONLY, 0));
	mkdir("locked", 0700);
	close(open("locked/in", O_CREAT, 0));
	chmod("locked", 0);
	chmod(".", 0);
	return 0;
}

// What an earlier run could have left; empty if nothing.
static void list(const char *dir) {
	DIR *d = opendir(dir);
	if (!d)
		printf("%s unreadable\n", dir);
	for (struct dirent *e; d && (e = readdir(d));)
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			printf("%s/%s\n", dir, e->d_name);
}

PROGRAM(leave_marks) {
	const char *dirs[] = {"/w", "/tmp", "/dev/shm"};
	for (int i = 0; i < 3; i++) {
		char path[64];
		snprintf(path, sizeof path, "%s/mark", dirs[i]);
		check(open(path, O_CREAT | O_WRONLY, 0600) >= 0, path);
	}
	return verdict();
}

PROGRAM(find_marks) {
	list("/w");
	list("/tmp");
	list("/dev/shm");
	return verdict();
}

// Creates and removes: counts of blocks and inodes are as before.
PROGRAM(touch_and_remove) {
	for (int i = 0; i < 5; i++) {
		close(open("/w/x", O_CREAT | O_WRONLY, 0600));
		unlink("/w/x");
	}
	return 0;
}

PROGRAM(next_inode) {
	struct stat st;
	int fd = open("/w/x", O_CREAT | O_WRONLY, 0600);
	fstat(fd, &st);
	printf("%lu\n", (unsigned long)st.st_ino);
	unlink("/w/x");
	return 0;
}

// Things to find at the name of an output file, by kind.
PROGRAM(fake_output) {
	const char *kind = argv[1];
	if (!strcmp(kind, "symlink"))
		return symlink("/etc/passwd", "out") != 0;
	if (!strcmp(kind, "local symlink"))
		return close(open("real", O_CREAT | O_WRONLY, 0600)), symlink("real", "out") != 0;
	if (!strcmp(kind, "proc link"))
		return symlink("/proc/self/exe", "out") != 0;
	if (!strcmp(kind, "device link"))
		return symlink("/dev/zero", "out") != 0;
	if (!strcmp(kind, "fifo"))
		return mkfifo("out", 0600) != 0;
	if (!strcmp(kind, "directory"))
		return mkdir("out", 0700) != 0;
	if (!strcmp(kind, "sparse"))
		return ftruncate(open("out", O_CREAT | O_WRONLY, 0600), 8 << 20) != 0;
	if (!strcmp(kind, "unreadable")) {
		int fd = open("out", O_CREAT | O_WRONLY, 0);
		return write(fd, "content", 7) != 7;
	}
	if (!strcmp(kind, "regular")) {
		int fd = open("out", O_CREAT | O_WRONLY, 0600);
		return write(fd, "content", 7) != 7;
	}
	return 0;
}

// A link in the way to the file.
PROGRAM(linked_parent) { return symlink("/etc", "sub") != 0; }

PROGRAM(write_kib) {
	static char block[1024];
	for (long n = atol(argv[1]); n > 0; n--)
		(void)!write(1, block, sizeof block);
	return 0;
}

PROGRAM(flood_stdout) {
	static char block[1 << 16];
	signal(SIGPIPE, SIG_IGN);
	for (;;)
		(void)!write(1, block, sizeof block);
}

PROGRAM(flood_stderr) {
	static char block[1 << 16];
	for (int i = 0; i < 64; i++)
		(void)!write(2, block, sizeof block);
	puts("42");
	return 0;
}

PROGRAM(write_file) {
	int fd = open(argv[1], O_CREAT | O_WRONLY | O_TRUNC, 0600);
	return fd < 0 || write(fd, argv[2], strlen(argv[2])) < 0;
}

PROGRAM(cat) {
	char block[4096];
	for (ssize_t n; (n = read(0, block, sizeof block)) > 0;)
		(void)!write(1, block, n);
	return 0;
}

PROGRAM(show) {
	int fd = open(argv[1], O_RDONLY);
	if (fd < 0)
		return 3;
	dup2(fd, 0);
	return run_cat(argc, argv);
}
