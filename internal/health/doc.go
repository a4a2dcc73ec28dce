// Package health decides from outcomes who may work: never from what a worker
// says of itself. It is pure: events with their instants in, decisions out; no
// clock, no I/O, no locks.
//
//	        3 consecutive faults of the host, or a failed probe
//	   ┌─────────────────────────────────────────────────────────┐
//	   │                                                         ▼
//	working ◀── probes passed, or acquitted, or reset ─── set aside until T
//	   ▲                                                         │ T is past
//	   │ first probe passed, or the gate's time is over          ▼
//	joining (new session)                              a round of probes; failed:
//	                                                   T doubles, up to a cap
//
// The same life has each language on each worker. What counts:
//
//	H1  A verdict is a success, whatever it says of the user: it ends the row of
//	    faults. So do faults blamed on the package or the checker count for nothing.
//	H2  A case (a job, or one probe program) counts once against a worker, and
//	    leases lost together are one incident.
//	H3  When several workers fail a case, the case is blamed: what it counted is
//	    taken back from all of them, and who was set aside for it returns. When
//	    somebody succeeds with it after all, it counts again.
//	    Where there is nobody else to fail it, a worker that fails a job again is
//	    probed before it gets any more work: that tells.
//	H4  Who is set aside gets nothing but probes, and none before its back-off is
//	    over. It returns by passing them, by H3 or by an operator.
//	H5  The back-off doubles from one setting aside to the next, and begins anew
//	    once the worker has been good for as long as it was away.
//	H6  A probe is never weakened by the one who is probed: the arbiter compares
//	    the verdict, and passing a probe counts only for the probe that is open.
//
// A fleet's state is one value a worker that can be stored and restored; what
// is derived from several workers is made from these.
package health
