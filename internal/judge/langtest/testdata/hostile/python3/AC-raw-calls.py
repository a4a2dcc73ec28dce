# abuse: 44 45 46 52 53 56 58 75 X10 X16
# System calls by number, through the foreign function interface.
import ctypes, os, platform

libc = ctypes.CDLL(None, use_errno=True)
numbers = {
    "x86_64": dict(
        ptrace=101, mount=165, umount2=166, unshare=272, setns=308, pivot_root=155, chroot=161,
        keyctl=250, add_key=248, bpf=321, perf_event_open=298, userfaultfd=323, io_uring_setup=425,
        process_vm_readv=310, kexec_load=246, init_module=175, finit_module=313, reboot=169, swapon=167,
        settimeofday=164, open_by_handle_at=304, fanotify_init=300, memfd_secret=447, shmget=29, msgget=68,
        semget=64, mq_open=240, pidfd_getfd=438, fsopen=430, open_tree=428, syslog=103, acct=163,
        iopl=172, modify_ldt=154, personality=135, sethostname=170, quotactl=179, move_pages=279,
    ),
}.get(platform.machine(), {})
for name, number in numbers.items():
    for first in 0, 0x1_0000_0000:  # the upper half of an argument counts too
        args = [ctypes.c_long(first)] + [ctypes.c_long(0)] * 5
        if name == "personality":
            args[0] = ctypes.c_long(0x0040000 + first)
        if name == "unshare":
            args[0] = ctypes.c_long(0x10000000 + first)
        if name == "perf_event_open":
            args[0] = ctypes.cast(ctypes.create_string_buffer(128), ctypes.c_void_p)
        if libc.syscall(ctypes.c_long(number), *args) >= 0:
            print("call succeeded:", name, hex(first))
        elif ctypes.get_errno() not in (1, 38):  # EPERM, ENOSYS: it did not get as far as its arguments
            print("call was tried:", name, hex(first), os.strerror(ctypes.get_errno()))
import socket
for family in 16, 17, 38, 40, 31, 15, 44, 30, 29:
    try:
        socket.socket(family, socket.SOCK_RAW)
        print("socket of family", family)
    except OSError:
        pass
print("held")
