// Programs that want more power than they were given.
#include "program.h"
#include <grp.h>
#include <linux/capability.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/swap.h>
#include <sys/time.h>

#define REFUSED(call) (errno = 0, check((long)(call) < 0, #call))

PROGRAM(namespaces) {
	REFUSED(unshare(CLONE_NEWUSER));
	REFUSED(unshare(CLONE_NEWNS));
	REFUSED(unshare(CLONE_NEWPID));
	REFUSED(unshare(CLONE_NEWNET));
	int kinds[] = {CLONE_NEWUSER, CLONE_NEWUSER | CLONE_NEWNS, CLONE_NEWUSER | CLONE_NEWPID, CLONE_NEWNET};
	for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		long pid = syscall(SYS_clone, kinds[i] | SIGCHLD, 0, 0, 0, 0);
		if (pid == 0)
			_exit(0);
		check(pid < 0, "clone with a namespace");
		struct {
			uint64_t flags, pidfd, child, parent, exit_signal, stack, size, tls;
		} args = {.flags = kinds[i], .exit_signal = SIGCHLD};
		pid = syscall(SYS_clone3, &args, sizeof args);
		if (pid == 0)
			_exit(0);
		check(pid < 0, "clone3 with a namespace");
	}
	REFUSED(setns(open("/proc/self/ns/mnt", O_RDONLY), 0));
	return verdict();
}

PROGRAM(mounts) {
	REFUSED(mount("none", "/w", "tmpfs", 0, ""));
	REFUSED(mount("/", "/w", NULL, MS_BIND, NULL));
	REFUSED(mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL));
	REFUSED(mount(NULL, "/usr", NULL, MS_REMOUNT | MS_BIND, NULL));
	REFUSED(umount2("/w", MNT_DETACH));
	REFUSED(umount2("/proc", MNT_DETACH));
	REFUSED(syscall(SYS_pivot_root, ".", "."));
	REFUSED(syscall(SYS_open_tree, AT_FDCWD, "/", 1));
	REFUSED(syscall(SYS_fsopen, "tmpfs", 0));
	REFUSED(chroot("/w"));
	REFUSED(chroot("/proc/1/root"));
	REFUSED(mknod("/w/dev", S_IFBLK | 0666, 0x0801));
	REFUSED(mknod("/w/null", S_IFCHR | 0666, 0x0103));
	return verdict();
}

static void status_is(const char *field, const char *want) {
	char line[256];
	FILE *f = fopen("/proc/self/status", "r");
	size_t n = strlen(field);
	while (f && fgets(line, sizeof line, f)) {
		if (strncmp(line, field, n))
			continue;
		line[strcspn(line, "\n")] = 0;
		char *v = line + n + 1;
		v += strspn(v, " \t");
		for (size_t i = strlen(v); i > 0 && v[i - 1] == ' '; i--)
			v[i - 1] = 0;
		if (strcmp(v, want))
			check(0, line);
		fclose(f);
		return;
	}
	check(0, field);
}

PROGRAM(privileges) {
	gid_t groups[8];
	check(getuid() == 1000 && geteuid() == 1000, "uid");
	check(getgid() == 1000 && getegid() == 1000, "gid");
	check(getgroups(8, groups) == 0, "supplementary groups");
	status_is("CapInh", "0000000000000000");
	status_is("CapPrm", "0000000000000000");
	status_is("CapEff", "0000000000000000");
	status_is("CapBnd", "0000000000000000");
	status_is("CapAmb", "0000000000000000");
	status_is("NoNewPrivs", "1");
	status_is("Seccomp", "2");
	status_is("SigIgn", "0000000000000000");
	status_is("SigBlk", "0000000000000000");
	REFUSED(setuid(0));
	REFUSED(setresuid(0, 0, 0));
	REFUSED(setgid(0));
	REFUSED(setgroups(1, groups));
	REFUSED(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2] = {{1u << 21, 1u << 21, 0}, {0, 0, 0}};
	REFUSED(syscall(SYS_capset, &h, d));
	return verdict();
}

PROGRAM(admin_calls) {
	struct timeval tv = {0, 0};
	struct timespec ts = {0, 0};
	REFUSED(reboot(RB_AUTOBOOT));
	REFUSED(sethostname("x", 1));
	REFUSED(swapoff("/swap"));
	REFUSED(settimeofday(&tv, NULL));
	REFUSED(clock_settime(CLOCK_REALTIME, &ts));
	REFUSED(syscall(SYS_syslog, 3, NULL, 0));
	REFUSED(syscall(SYS_init_module, "", 0, ""));
	REFUSED(syscall(SYS_kexec_load, 0, 0, 0, 0));
	REFUSED(syscall(SYS_acct, NULL));
	REFUSED(open("/dev/log", O_WRONLY));
	return verdict();
}

PROGRAM(attack_surface) {
	char attr[128] = {0};
	REFUSED(syscall(SYS_bpf, 0, attr, sizeof attr));
	REFUSED(syscall(SYS_perf_event_open, attr, 0, -1, -1, 0));
	REFUSED(syscall(SYS_userfaultfd, 1));
	REFUSED(syscall(SYS_io_uring_setup, 4, attr));
	REFUSED(syscall(SYS_open_by_handle_at, AT_FDCWD, attr, 0));
	REFUSED(syscall(SYS_fanotify_init, 0, 0));
	REFUSED(syscall(SYS_personality, 0x0040000));
	check(syscall(SYS_personality, 0xffffffff) >= 0, "reading the personality");
	return verdict();
}

PROGRAM(keyrings) {
	REFUSED(syscall(SYS_add_key, "user", "k", "v", 1, -4));
	REFUSED(syscall(SYS_request_key, "user", "k", NULL, -4));
	REFUSED(syscall(SYS_keyctl, 0, -3, 1));
	return verdict();
}

// Calls of other architectures, whose numbers the filter does not know.
PROGRAM(foreign_calls) {
#ifdef __x86_64__
	long r;
	__asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory"); // getpid of i386
	check(r != getpid(), "32-bit call");
	__asm__ volatile("syscall" : "=a"(r) : "a"(0x40000000 | 39) : "rcx", "r11", "memory"); // getpid of x32
	check(r != getpid(), "x32 call");
#endif
	return verdict();
}

static void cannot_write(const char *path) {
	int fd = open(path, O_WRONLY);
	errno = 0;
	check(fd < 0 || write(fd, "0", 1) < 0, path);
}

PROGRAM(sysctls) {
	const char *paths[] = {
		"/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/kernel/hostname",
		"/proc/sys/kernel/shmmni", "/proc/sys/user/max_user_namespaces", "/proc/sys/kernel/ns_last_pid",
		"/proc/sys/vm/overcommit_memory", "/proc/self/uid_map", "/proc/self/gid_map", "/proc/self/setgroups",
	};
	for (unsigned i = 0; i < sizeof paths / sizeof *paths; i++)
		cannot_write(paths[i]);
	check(access("/sys", F_OK) != 0, "/sys");
	check(access("/sys/fs/cgroup", F_OK) != 0, "cgroup files");
	char line[512];
	FILE *f = fopen("/proc/self/cgroup", "r");
	while (f && fgets(line, sizeof line, f))
		check(!strstr(line, "slot"), "cgroup path of the host");
	return verdict();
}

// Being killed after the worker when the machine runs out of memory.
PROGRAM(oom_score) {
	cannot_write("/proc/self/oom_score_adj");
	return verdict();
}

PROGRAM(core_dumps) {
	struct rlimit r;
	getrlimit(RLIMIT_CORE, &r);
	check(r.rlim_cur == 1 && r.rlim_max == 1, "core limit is not the one byte that stops pipes too");
	r.rlim_cur = r.rlim_max = RLIM_INFINITY;
	REFUSED(setrlimit(RLIMIT_CORE, &r));
	pid_t pid = fork();
	if (pid == 0)
		abort();
	int status;
	waitpid(pid, &status, 0);
	check(!WCOREDUMP(status), "core dumped");
	check(access("/w/core", F_OK) != 0, "core file");
	return verdict();
}
