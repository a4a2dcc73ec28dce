// abuse: 17 22
using System;
using System.Runtime.InteropServices;

class Program {
    static void Main() {
        for (;;) {
            IntPtr p = Marshal.AllocHGlobal(1 << 20);
            for (int i = 0; i < 1 << 20; i += 4096) Marshal.WriteByte(p, i, 1);
        }
    }
}
