// abuse: 4
// Threads, each of which alone stays within the limit.
const { Worker, isMainThread } = require('worker_threads');
if (isMainThread) for (let i = 0; i < 3; i++) new Worker(__filename);
else for (;;);
