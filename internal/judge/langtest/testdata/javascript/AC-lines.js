const rl = require('readline').createInterface({ input: process.stdin });
rl.on('line', (line) => console.log(line.split(' ').reduce((s, w) => s + Number(w), 0)));
