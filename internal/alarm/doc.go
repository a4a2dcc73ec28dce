// Package alarm decides what deserves a person's attention: facts in, alarms
// that start, continue and end out. It is pure; the arbiter looks about once a
// second and carries out what is said.
//
//	Facts ──Conditions──▶ what holds now ──Watch.Look──▶ Started, Continued, Ended
//
//	             holds for Rule.For            absent for Rule.Clear
//	(nothing) ───────────────────▶ open ───────────────────────────▶ ended
//	    ▲  absent once, or about      │ holds again
//	    └── something else            └──▶ open
//
// What happens now and then (a leader changes, a result is discarded) is a
// condition that holds at the look after it: its alarm counts what comes, and
// ends when nothing has come for a while.
//
// Time in which nobody looked counts for nothing: after a pause longer than
// MaxGap every condition must hold anew from the start, so that an arbiter
// that was frozen with a job in its hand raises no alarm when it thaws. Facts
// that could not be seen at a look leave their alarms as they are.
package alarm
