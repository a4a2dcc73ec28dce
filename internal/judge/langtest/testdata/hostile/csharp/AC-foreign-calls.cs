// abuse: 53 55 75
using System;
using System.Runtime.InteropServices;

class Program {
    [DllImport("libc", SetLastError = true)] static extern int setuid(uint id);
    [DllImport("libc", SetLastError = true)] static extern int kill(int pid, int signal);
    [DllImport("libc", SetLastError = true)] static extern long ptrace(long what, long pid, long a, long b);
    [DllImport("libc", SetLastError = true)] static extern int unshare(int flags);
    static void Main() {
        if (setuid(0) == 0) Console.WriteLine("root");
        if (kill(1, 9) == 0) Console.WriteLine("signalled process 1");
        if (ptrace(16, 1, 0, 0) == 0) Console.WriteLine("traces process 1");
        if (unshare(0x10000000) == 0) Console.WriteLine("made a namespace");
        Console.WriteLine("held");
    }
}
