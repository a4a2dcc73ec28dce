// Package worker is the agent on a judge machine. It claims leases from an
// arbiter, lets an engine judge them, and reports. It knows HTTP calls and
// files; what judging means is the engine's business.
//
//	            ┌────────────── one claim loop ──────────────┐
//	            │ room? obstacles? → long-poll for all slots │
//	            └───────┬────────────────────────────────────┘
//	                    │ a lease, one goroutine each (a slot)
//	                    ▼
//	confirm ──▶ fetch ──▶ judge ──▶ outbox ──▶ result ──▶ free
//	   ▲          (cache)   │  kill        (disk)  (retried)
//	   └── keeper: heartbeats beside all of it, until the slot is free
//
// Invariants, by their numbers in the lease protocol:
//
//   - I4: a lease holds its slot until its result is answered or the lease is
//     known to be dead; the claim loop asks for free slots only.
//   - I9: no work starts before a first heartbeat was answered, and none goes
//     on after 410, or when TTL less a margin has passed on this machine's own
//     monotonic clock since the last answered heartbeat was sent.
//
// A finished result is on disk before it is reported (see outbox) and leaves
// the disk only when the arbiter has answered it. A fault of this machine is
// reported as one and never becomes a verdict.
//
// The agent trusts the arbiter's answers about a lease and nothing else: not
// the network, not the disk (packages are verified, outbox entries carry
// checksums), not the engine (a run past its own bound is silenced and killed,
// so that heartbeats cannot hide a dead slot).
//
// On failure: an arbiter that is away is asked again, later and later, at
// random; a full disk stops claiming and says so until there is room; a token
// that is refused ends the process, because no retry can cure it.
package worker
