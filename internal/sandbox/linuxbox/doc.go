// Package linuxbox runs untrusted programs on Linux: the mechanism behind
// sandbox.Provider and sandbox.Box.
//
// # Processes
//
//	worker (root)                    Provider, one starter thread for life
//	 └─ slot init (this executable)  new user, pid, mount, net, ipc, uts
//	      │                          namespaces; pid 1; unprivileged on the host
//	      ├─ main thread             janitor: mounts and unmounts
//	      ├─ forker thread           in the run's cgroups (v1), no_new_privs,
//	      │                          seccomp, own cgroup namespace; receives runs,
//	      │                          forks, watches, reaps, answers
//	      └─ the program             uid 1000 of the box, no capabilities
//
// Everything that is dear (namespaces, the read-only root, the filter) is made
// once per slot and inherited; a run costs one vfork and exec. Between runs
// the init kills and reaps whatever is left, replaces each scratch file system
// that was touched, and after an anomaly or a number of runs the whole slot is
// replaced.
//
// # Who is trusted
//
// The init runs our code only: it has another uid than the program, is hidden
// from it and cannot be traced. The host never opens a path of the box after a
// program ran; it sends descriptors in and gets descriptors out.
//
// # Invariants
//
//	L1  The first enforced limit is the cause; later ones do not replace it.
//	L2  No process of a run is alive when its result is sent.
//	L3  No descriptor but 0, 1 and 2 reaches the program.
//	L4  What a run wrote is gone before the next program starts.
//	L5  A dead worker takes its inits, and so every program, with it
//	    (parent-death signal, end of the control socket, pid namespace).
//	L6  Limits of the machine end in a sandbox.Fault, never in a Result.
//
// docs/design/sandbox.md has the threat model and the reasons.
package linuxbox
