// abuse: 10 13 52 53 75
package main

import (
	"fmt"
	"os"
	"syscall"
)

//go:generate touch /w/generated
func main() {
	for _, n := range []uintptr{syscall.SYS_PTRACE, syscall.SYS_MOUNT, syscall.SYS_UNSHARE, syscall.SYS_REBOOT, syscall.SYS_ACCT, syscall.SYS_CHROOT, 425, 321} {
		if _, _, errno := syscall.RawSyscall6(n, 0, 0, 0, 0, 0, 0); errno != syscall.EPERM && errno != syscall.ENOSYS {
			fmt.Println("call", n, errno)
		}
	}
	if syscall.Kill(1, syscall.SIGKILL) == nil || syscall.Kill(os.Getppid(), syscall.SIGSTOP) == nil {
		fmt.Println("signalled process 1")
	}
	if _, err := os.StartProcess("/proc/self/exe", []string{"x"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}}); err == nil {
		fmt.Println("made a namespace")
	}
	fmt.Println("held")
}
