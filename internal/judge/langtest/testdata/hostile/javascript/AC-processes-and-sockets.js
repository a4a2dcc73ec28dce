// abuse: 13 42 43 55
const net = require('net'), cp = require('child_process');
for (const signal of ['SIGKILL', 'SIGSTOP', 'SIGTERM'])
	try { process.kill(1, signal); console.log('signalled process 1'); } catch (e) {}
for (const f of [() => process.setuid(0), () => process.setgid(0), () => process.setgroups([0]), () => process.initgroups('root', 0)])
	try { f(); console.log('changed its ids'); } catch (e) {}
if (/^uid=1000\(box\) gid=1000\(box\) groups=1000\(box\)$/.test(cp.execSync('id').toString().trim()) === false) console.log('other ids');
cp.spawn('sleep', ['1000'], { detached: true, stdio: 'ignore' }).unref();
let open = 3;
const done = () => { if (--open === 0) { console.log('held'); process.exit(0); } };
for (const [port, host] of [[5432, '127.0.0.1'], [80, '169.254.169.254'], [53, '8.8.8.8']])
	net.connect(port, host).on('connect', () => console.log('reached ' + host)).on('error', done);
