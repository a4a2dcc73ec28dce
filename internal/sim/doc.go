// Package sim runs the protocol of leases under a seeded scheduler, in virtual
// time, with everything going wrong that can: messages that are lost, doubled,
// reordered or hours late; workers that crash, freeze, forget or lie; arbiters
// that fail over, freeze and come back with old memory; a database that is away
// or does not say whether it committed. Only tests use it.
//
//	scheduler (one seed) ──▶ next event ──▶ worker, arbiter or database ──▶ checks
//
//	Worker ──calls, lossy──▶ Arbiter ──statements, answers may be lost──▶ DB
//
// DB is a model of the tables whose statements follow internal/store/queries
// one by one; every change of a job's state goes through lease.Apply, and a
// differential test in internal/store runs recorded histories against
// PostgreSQL. Arbiter follows internal/arbiter: the same memory, the same order
// of steps, matching by internal/dispatch. Worker follows internal/worker.
//
// After each event the invariants I1 to I9 are checked as far as a model
// without locks can show them, and with them the promises: nothing lost,
// nothing doubled, nothing stale applied, no answer that is not true, and
// progress when the faults stop (check.go names them). A history is a function
// of its seed and the number of steps, so one line replays it.
//
// What is not here: locks and concurrent transactions (each statement is one
// event; the histories of package history, taken from a real arbiter on
// PostgreSQL, look at those), and anything of HTTP or the disk.
package sim
