using System.Collections.Generic;

class P {
    static void Main() {
        var all = new List<byte[]>();
        for (;;) {
            var p = new byte[1 << 20];
            for (int i = 0; i < p.Length; i += 1024) p[i] = 1;
            all.Add(p);
        }
    }
}
