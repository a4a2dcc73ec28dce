// Package dispatch decides who gets what next. It is pure: facts about jobs,
// workers and waiting claims in, grants and reasons out; no clock, no I/O, no
// locks. The arbiter's loop feeds a Board and carries its decisions out.
//
// The rules, in the order in which they bind:
//
//   - Ability: a job goes only to a worker that offers its language and
//     features, has its tags, takes its lane, has the memory for it, and is not
//     away (drained, paused, set aside, asleep).
//   - Brakes: a lane, a language or a problem that an operator holds gives
//     nothing; a batch of rejudges never has more jobs out than its budget.
//   - Lanes: probes first, then runs (a person waits at the editor) within
//     their share while others wait; judge, prepare and rejudge take weighted
//     turns.
//   - Within a lane: the priority class, then turns between submitters, so one
//     person's hundred submissions delay another's first by at most one job,
//     then age.
//   - Pools: the most preferred pool that has somebody able and free. Nobody
//     waits for a preferred worker longer than Policy.Hold, and only for one
//     that was just seen between two claims.
//   - Within a pool: who holds the package, then who was idle longest.
//
// The answer to "why does this wait?" (Board.Explain) comes from the same
// functions that decide.
package dispatch
