package linuxbox

import (
	"fmt"
	"unsafe"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// The filter is a list of refusals, answered with an errno. Languages need odd
// calls, so the default is to allow: namespaces, missing capabilities and
// cgroups are the walls, the filter takes attack surface away and closes the
// few doors that are not namespaced (keyrings, vsock, io_uring).

// refusedEPERM are calls that need privileges no program of a judge has a use for.
var refusedEPERM = []string{
	"mount", "umount2", "pivot_root", "chroot", "move_mount", "fsopen", "fsmount",
	"fsconfig", "fspick", "open_tree", "mount_setattr", "setns", "unshare",
	"ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd", "process_madvise",
	"bpf", "perf_event_open", "userfaultfd",
	"init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot",
	"swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "syslog", "vhangup",
	"settimeofday", "clock_settime", "adjtimex", "clock_adjtime",
	"open_by_handle_at", "name_to_handle_at", "fanotify_init", "fanotify_mark", "lookup_dcookie",
	"mbind", "set_mempolicy", "set_mempolicy_home_node", "migrate_pages", "move_pages",
	"iopl", "ioperm", "sethostname", "setdomainname",
	"sched_setaffinity", // a box may be pinned to a CPU, and its neighbours' times depend on it
}

// refusedENOSYS are calls that libraries probe for and do without.
var refusedENOSYS = []string{
	"io_uring_setup", "io_uring_enter", "io_uring_register", "memfd_secret",
	"add_key", "request_key", "keyctl",
	"shmget", "shmat", "shmctl", "shmdt", "msgget", "msgsnd", "msgrcv", "msgctl",
	"semget", "semop", "semtimedop", "semctl",
	"mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive", "mq_notify", "mq_getsetattr",
	"uselib", "nfsservctl", "modify_ldt", "_sysctl", "ustat", "sysfs",
}

// filterProgram assembles the filter for this machine's architecture.
func filterProgram(cfg *setup) ([]bpf.RawInstruction, error) {
	info, err := arch.GetInfo("")
	if err != nil {
		return nil, err
	}
	known := func(names []string) (have []string) {
		for _, n := range names {
			if _, ok := info.SyscallNames[n]; ok { // some exist on one architecture only
				have = append(have, n)
			}
		}
		return have
	}
	errno := func(e unix.Errno) seccomp.Action { return seccomp.ActionErrno | seccomp.Action(e) }
	not := func(arg uint32, values ...uint64) (all seccomp.ArgumentConditions) {
		for _, v := range values {
			all = append(all, seccomp.Condition{Argument: arg, Operation: seccomp.NotEqual, Value: v})
		}
		return all
	}
	policy := seccomp.Policy{
		DefaultAction: seccomp.ActionAllow,
		Syscalls: []seccomp.SyscallGroup{
			{Names: known(refusedEPERM), Action: errno(unix.EPERM)},
			{Names: known(refusedENOSYS), Action: errno(unix.ENOSYS)},
			{
				// The network namespace is empty, so inet sockets are harmless and
				// libraries that make one do not crash. The other families are not
				// all namespaced.
				NamesWithCondtions: []seccomp.NameWithConditions{{
					Name: "socket", Conditions: not(0, unix.AF_UNIX, unix.AF_INET, unix.AF_INET6),
				}},
				Action: errno(unix.EAFNOSUPPORT),
			},
			{
				// Reading the personality is fine, changing it is not.
				NamesWithCondtions: []seccomp.NameWithConditions{{
					Name: "personality", Conditions: not(0, 0, 0xffffffff, 0xffffffffffffffff),
				}},
				Action: errno(unix.EPERM),
			},
		},
	}
	if cfg.Polled {
		// Files without a name hold memory that no look at processes finds.
		policy.Syscalls = append(policy.Syscalls, seccomp.SyscallGroup{Names: []string{"memfd_create"}, Action: errno(unix.ENOSYS)})
	}
	if cfg.OneID {
		policy.Syscalls = append(policy.Syscalls, oneIDRefusals(not, errno(unix.EPERM))...)
	}
	body, err := policy.Assemble()
	if err != nil {
		return nil, err
	}
	// The assembler lets calls of a foreign architecture (int 0x80) fall to the
	// default action, which here would allow them all; refuse them before.
	guard := []bpf.Instruction{
		bpf.LoadAbsolute{Off: 4, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(info.ID), SkipTrue: 1},
		bpf.RetConstant{Val: uint32(errno(unix.ENOSYS))},
	}
	return bpf.Assemble(append(guard, body...))
}

// installFilter puts the filter on the calling thread alone: the init's other
// threads have to mount.
func installFilter(cfg *setup) error {
	raw, err := filterProgram(cfg)
	if err != nil {
		return fmt.Errorf("assemble: %w", err)
	}
	insns := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		insns[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	prog := unix.SockFprog{Len: uint16(len(insns)), Filter: &insns[0]}
	_, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	if e != 0 {
		return e
	}
	return nil
}
