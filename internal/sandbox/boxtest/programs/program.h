// Every hostile program is one PROGRAM in one binary, chosen by its first
// argument: compiling one binary is quick, and static, so that it runs in any
// box. An attack prints "held" when the box withstood it and "BREACH ..." when
// it did not; what it prints besides is for people.
#ifndef PROGRAM_H
#define PROGRAM_H
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef int program(int argc, char **argv);
void add_program(const char *name, program *p);

#define PROGRAM(name)                                                          \
	static int run_##name(int argc, char **argv);                          \
	__attribute__((constructor)) static void add_##name(void) {            \
		add_program(#name, run_##name);                                \
	}                                                                      \
	static int run_##name(int argc __attribute__((unused)),                \
			      char **argv __attribute__((unused)))

// Seconds of CPU time of this process so far.
double cpu_seconds(void);
// Computes until this process has used that much CPU time in addition.
void burn(double seconds);
// Counts and prints a breach unless ok.
void check(int ok, const char *what);
// Prints "held" if no check failed; the program's exit code.
int verdict(void);
#endif
