// abuse: 76
// No package comes from anywhere.
const { spawnSync } = require('child_process');
const got = spawnSync('npm', ['install', 'left-pad', '--no-audit', '--fetch-retries=0', '--offline=false'], { timeout: 300, stdio: 'ignore' });
if (got.status === 0) console.log('installed');
try { require('left-pad'); console.log('there'); } catch (e) { console.log('held'); }
