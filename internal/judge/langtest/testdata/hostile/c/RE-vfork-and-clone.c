// abuse: 9 6
// One process is all that a C program may have; making others by every call there is fails.
// exit: 42
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
	pid_t pids[] = {fork(), vfork(), syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0), syscall(SYS_clone, CLONE_UNTRACED | SIGCHLD, 0, 0, 0, 0)};
	for (int i = 0; i < 4; i++)
		if (pids[i] >= 0)
			return 1;
	return 42;
}
