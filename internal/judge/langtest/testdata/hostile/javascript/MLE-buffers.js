// abuse: 22 17
// Memory outside of the runtime's heap.
const all = [];
for (;;) all.push(Buffer.alloc(1 << 20, 1));
