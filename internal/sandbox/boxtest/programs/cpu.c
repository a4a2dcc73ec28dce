// Programs that use time, or none.
#include "program.h"
#include <pthread.h>

PROGRAM(return0) { return 0; }

PROGRAM(exit_with) { _exit(atoi(argv[1])); }

PROGRAM(raise) {
	int sig = atoi(argv[1]);
	signal(sig, SIG_DFL);
	raise(sig);
	return 77;
}

PROGRAM(cpu_loop) {
	for (volatile unsigned x = 0;; x++)
		;
}

PROGRAM(burn) {
	burn(atof(argv[1]));
	return 0;
}

PROGRAM(answer_then_sleep) {
	puts("42");
	fflush(stdout);
	for (;;)
		pause();
}

static void *burner(void *seconds) {
	struct timespec t;
	double end = 0;
	do {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
		if (end == 0)
			end = t.tv_sec + t.tv_nsec / 1e9 + *(double *)seconds;
	} while (t.tv_sec + t.tv_nsec / 1e9 < end);
	return NULL;
}

// Two threads, each of which alone would be within the limit.
PROGRAM(two_threads) {
	double each = atof(argv[1]);
	pthread_t a, b;
	pthread_create(&a, NULL, burner, &each);
	pthread_create(&b, NULL, burner, &each);
	pthread_join(a, NULL);
	pthread_join(b, NULL);
	return 0;
}

// CPU time used by a child that nobody waits for.
PROGRAM(unwaited_child) {
	int done[2];
	char c;
	if (pipe(done) || fork() == 0) {
		burn(atof(argv[1]));
		_exit(0);
	}
	close(done[1]);
	(void)!read(done[0], &c, 1);
	_exit(0); // without wait
}

PROGRAM(self_stop) {
	raise(SIGSTOP);
	return 0;
}

PROGRAM(ignore_signals) {
	for (int s = 1; s < 65; s++)
		signal(s, SIG_IGN);
	for (volatile unsigned x = 0;; x++)
		;
}

// Starts itself anew all the time, to shed whatever is counted per exec.
PROGRAM(exec_loop) {
	burn(0.01);
	execl("/proc/self/exe", "hostile", "exec_loop", NULL);
	return 1;
}

// Raises the signal that a CPU limit of the kernel would, at no CPU time.
PROGRAM(fake_xcpu) {
	raise(SIGXCPU);
	return 0;
}

PROGRAM(fake_kill) {
	fputs("Killed\n", stderr);
	raise(SIGKILL);
	return 0;
}

PROGRAM(priorities) {
	struct sched_param p = {.sched_priority = 1};
	struct rlimit r = {RLIM_INFINITY, RLIM_INFINITY};
	// The first moments of a program are spent under soft limits only; what it
	// raises then is lowered again.
	for (int i = 0; i < 1000; i++) {
		struct rlimit files, stack;
		getrlimit(RLIMIT_NOFILE, &files);
		getrlimit(RLIMIT_STACK, &stack);
		if (files.rlim_max <= 1024 && stack.rlim_max <= 64 << 20)
			break;
		usleep(10000);
	}
	errno = 0;
	check(setpriority(PRIO_PROCESS, 0, -5) != 0, "negative nice");
	check(sched_setscheduler(0, SCHED_FIFO, &p) != 0, "realtime class");
	check(setrlimit(RLIMIT_NOFILE, &r) != 0, "raised open files");
	check(setrlimit(RLIMIT_STACK, &r) != 0, "raised stack");
	check(setrlimit(RLIMIT_FSIZE, &r) != 0, "raised file size");
	return verdict();
}
