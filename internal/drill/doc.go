// Package drill makes abnormal situations happen to real processes and a real
// PostgreSQL, and looks at what is in the database afterwards. It is what
// `gavel-drill` runs, and a selection of it is run by the tests.
//
//	drill (this process)                      children, on loopback
//	┌───────────────────────────────┐   ┌──────────────────────────────┐
//	│ scenario: a script of calls   │   │ postgres     (pgserver)      │
//	│   faults: signals, relay, disk│──▶│ gavel serve  (the program)   │
//	│ bystanders: the others, whose │   │ role worker  (real agent,    │
//	│   waits are measured          │   │   an engine that acts a part)│
//	│ ledger: what must be true in  │   │ gavel-worker (the program)   │
//	│   the database at the end     │   └──────────────────────────────┘
//	└───────────────────────────────┘
//
// Each scenario has a server, a directory and processes of its own, and is
// bounded in time. Whatever way it ends, its children are killed (the kernel
// does it should this process be killed itself), and small disks live in mount
// namespaces that end with the process in them, so nothing has to be undone.
//
// The worker of most scenarios is this program again in the role of a worker:
// the agent of internal/worker with an engine that does what the source says,
// such as "AC after 300ms" or "die". What it speaks, stores and decides is the
// agent's own code. Some scenarios use gavel-worker and its boxes instead.
//
// A replay acts out an incident of an older design (old_claim.go is its model)
// beside edge pull and the arbiter, in compressed time; what it has shown is a
// value of internal/timeline.
//
// What is trusted: the database's own record. Each grant has a row in attempts
// with its times, so that lost, doubled and stale results, overlapping leases
// and overfull workers are found by looking, not by having watched.
//
// A scenario that cannot fail shows nothing. Sabotage switches the protection
// off where that is possible from outside; the scenario must then fail.
package drill
