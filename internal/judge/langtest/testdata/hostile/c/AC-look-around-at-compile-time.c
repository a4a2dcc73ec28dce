// abuse: 36 35 X08
#include <stdio.h>
#if __has_include("/root/.profile") || __has_include("/root/.bashrc") || __has_include("/etc/shadow") || \
	__has_include("/proc/1/environ") || __has_include("/proc/1/cmdline") || __has_include("/var/lib/dpkg/status") || \
	__has_include("/data/1.in") || __has_include("/data/secret.ans") || __has_include("../secret.ans") || \
	__has_include("/sys/kernel/notes") || __has_include("/etc/ssh/sshd_config") || __has_include("/etc/machine-id")
#error sees the machine
#endif
int main(void) { puts("held"); }
