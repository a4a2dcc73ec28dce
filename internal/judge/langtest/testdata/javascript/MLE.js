const all = [];
for (;;) all.push(new Array(1 << 16).fill(1.5));
