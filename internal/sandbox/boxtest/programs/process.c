// Programs that multiply, hide or go for other processes.
#include "program.h"
#include <dirent.h>
#include <pthread.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

PROGRAM(fork_bomb) {
	for (;;)
		fork();
}

PROGRAM(setsid_bomb) {
	for (;;)
		if (fork() == 0)
			setsid();
}

// The parent ends well while its children compute on.
PROGRAM(parent_exits) {
	for (int i = 0; i < 6; i++)
		if (fork() == 0)
			for (volatile unsigned x = 0;; x++)
				;
	burn(0.05);
	puts("42");
	return 5;
}

// A daemon by the book: two forks, a session of its own, all output closed.
PROGRAM(daemon) {
	int ready[2];
	char c;
	if (pipe(ready))
		return 3;
	if (fork() == 0) {
		setsid();
		if (fork() == 0) {
			setsid();
			for (int s = 1; s < 65; s++)
				signal(s, SIG_IGN);
			close(0), close(1), close(2);
			(void)!write(ready[1], "x", 1);
			for (;;)
				sleep(1);
		}
		_exit(0);
	}
	(void)!read(ready[0], &c, 1);
	return 0;
}

// Leaves a child that holds the output open.
PROGRAM(hold_stdout) {
	puts("42");
	fflush(stdout);
	if (fork() == 0)
		for (;;)
			pause();
	return 0;
}

// Children that become siblings, children of the box's init.
PROGRAM(clone_parent) {
	for (int i = 0; i < 4; i++) {
		long pid = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
		if (pid == 0) {
			burn(0.03);
			for (;;)
				pause();
		}
	}
	burn(0.03);
	return 0;
}

PROGRAM(zombie_farm) {
	int n = 0, failed = 0;
	while (n < 1000 && !failed) {
		pid_t pid = fork();
		if (pid == 0)
			_exit(0);
		failed = pid < 0;
		n++;
	}
	printf("%d %d\n", n - 1, failed);
	return 0;
}

// Orphans that end at once must not count as processes for long.
PROGRAM(short_orphans) {
	for (int i = 0; i < 40; i++) {
		pid_t pid;
		for (int tries = 0; (pid = fork()) < 0 && tries < 100; tries++)
			usleep(10000);
		if (pid < 0)
			return 3;
		if (pid == 0) {
			if (fork() == 0)
				_exit(0);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	puts("42");
	return 0;
}

static void *wait_forever(void *p) {
	for (;;)
		pause();
	return p;
}

PROGRAM(thread_bomb) {
	pthread_attr_t a;
	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, 1 << 16);
	int n = 0;
	pthread_t t;
	while (n < 5000 && pthread_create(&t, &a, wait_forever, NULL) == 0)
		n++;
	printf("%d\n", n);
	return 0;
}

PROGRAM(kill_others) {
	errno = 0;
	check(kill(getppid(), SIGSTOP) != 0, "stopped the parent");
	check(kill(1, SIGKILL) != 0, "killed process 1");
	check(kill(1, SIGSTOP) != 0, "stopped process 1");
	for (pid_t p = 2; p < 400; p++)
		if (p != getpid())
			check(kill(p, SIGKILL) != 0, "killed another process");
	check(kill(-1, SIGKILL) != 0, "kill(-1) found somebody");
	return verdict();
}

PROGRAM(trace_others) {
	char buf[16];
	struct iovec l = {buf, sizeof buf}, r = {(void *)0x400000, sizeof buf};
	pid_t child = fork();
	if (child == 0)
		for (;;)
			pause();
	check(ptrace(PTRACE_ATTACH, 1, 0, 0) != 0, "traced process 1");
	check(ptrace(PTRACE_ATTACH, child, 0, 0) != 0, "traced a child");
	check(process_vm_readv(1, &l, 1, &r, 1, 0) < 0, "read memory of process 1");
	check(process_vm_readv(child, &l, 1, &r, 1, 0) < 0, "read memory of a child by call");
	check(open("/proc/1/mem", O_RDWR) < 0, "opened memory of process 1");
	check(syscall(SYS_pidfd_getfd, syscall(SYS_pidfd_open, getpid(), 0), 0, 0) < 0, "pidfd_getfd");
	kill(child, SIGKILL);
	return verdict();
}

// Only processes of the run are to be seen.
PROGRAM(look_around) {
	DIR *d = opendir("/proc");
	for (struct dirent *e; d && (e = readdir(d));) {
		int pid = atoi(e->d_name);
		if (pid > 0 && pid != getpid())
			check(0, e->d_name);
	}
	struct stat st;
	check(stat("/proc/1", &st) != 0, "/proc/1 is visible");
	check(open("/proc/1/environ", O_RDONLY) < 0, "/proc/1/environ");
	check(open("/proc/1/exe", O_RDONLY) < 0, "/proc/1/exe");
	check(stat("/proc/1/root/etc", &st) != 0, "/proc/1/root");
	return verdict();
}

PROGRAM(print_pid) {
	printf("%d\n", getpid());
	return 0;
}

// Everything that one process may do to another besides signals and tracing,
// tried on the box's init, which the program's fate depends upon.
PROGRAM(meddle) {
	struct rlimit none = {0, 0}, was;
	struct sched_param p = {0};
	pid_t victims[] = {1, getppid() > 0 ? getppid() : 1};
	for (int i = 0; i < 2; i++) {
		pid_t v = victims[i];
		check(prlimit(v, RLIMIT_NOFILE, &none, NULL) != 0, "set the init's limits");
		check(prlimit(v, RLIMIT_CPU, &none, NULL) != 0, "set the init's CPU limit");
		check(prlimit(v, RLIMIT_NOFILE, NULL, &was) != 0, "read the init's limits");
		check(setpriority(PRIO_PROCESS, v, 19) != 0, "set the init's priority");
		check(sched_setscheduler(v, SCHED_IDLE, &p) != 0, "set the init's scheduler");
		check(sched_setparam(v, &p) != 0, "set the init's scheduling parameters");
		check(syscall(SYS_ioprio_set, 1, v, 3 << 13) != 0, "set the init's I/O priority");
		int fd = syscall(SYS_pidfd_open, v, 0);
		check(fd < 0 || syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) != 0, "signalled the init by descriptor");
		for (pid_t t = 1; t < 40; t++)
			check(syscall(SYS_tgkill, v, t, SIGKILL) != 0, "killed a thread of the init");
		siginfo_t si = {.si_code = SI_QUEUE};
		check(syscall(SYS_rt_sigqueueinfo, v, SIGTERM, &si) != 0, "queued a signal for the init");
	}
	// By user, it must reach no more than this program itself.
	setpriority(PRIO_USER, getuid(), 19);
	return verdict();
}
