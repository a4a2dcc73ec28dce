// Package lease is the pure model of a job and its lease: the states, the
// events, and what each event does. The SQL in internal/store carries the same
// rules as conditions of its statements; a test there runs every event against
// both and compares.
//
//	pending ──grant──▶ leased ──result──▶ done              attempt: completed
//	   ▲                 ├──expire, below the cap──▶ pending       expired
//	   │                 ├──expire, at the cap──▶ system_error     expired
//	   │                 ├──expire, unconfirmed──▶ pending, refund undelivered
//	   │                 ├──release──▶ pending, refund             released
//	   │                 ├──fault, below the cap──▶ pending        failed
//	   │                 ├──fault, at the cap──▶ system_error      failed
//	   └─────────────────┴──cancel──▶ cancelled (also from pending)
package lease

import (
	"fmt"
	"time"
)

// Settings are the protocol's constants.
type Settings struct {
	TTL        time.Duration // how long a confirmed lease lives without a heartbeat
	Heartbeat  time.Duration // how often a worker shows that it is alive
	Confirm    time.Duration // how long a grant lives until its first heartbeat
	AttemptCap int           // grants that may fail or expire before system_error
	Sweep      time.Duration // full reclaim sweep, beside the timer of the next expiry
	ClaimWait  time.Duration // longest long-poll
}

// DefaultSettings are those of the protocol's description.
var DefaultSettings = Settings{
	TTL: 60 * time.Second, Heartbeat: 5 * time.Second, Confirm: 10 * time.Second,
	AttemptCap: 3, Sweep: 10 * time.Second, ClaimWait: 25 * time.Second,
}

// Validate refuses settings that would re-run work that is still running.
func (s Settings) Validate() error {
	switch {
	case s.TTL <= 0 || s.Heartbeat <= 0 || s.Confirm <= 0 || s.Sweep <= 0 || s.ClaimWait <= 0:
		return fmt.Errorf("lease settings: every duration must be positive (ttl %v, heartbeat %v, confirm %v, sweep %v, claim wait %v)",
			s.TTL, s.Heartbeat, s.Confirm, s.Sweep, s.ClaimWait)
	case 3*s.Heartbeat > s.TTL:
		return fmt.Errorf("lease settings: heartbeat %v is too long for ttl %v: three heartbeats must fit into one ttl", s.Heartbeat, s.TTL)
	case s.Confirm > s.TTL:
		return fmt.Errorf("lease settings: confirm %v is longer than ttl %v", s.Confirm, s.TTL)
	case s.AttemptCap < 1:
		return fmt.Errorf("lease settings: attempt cap %d must be at least 1", s.AttemptCap)
	}
	return nil
}

// State of a job.
type State string

// The states. Done, SystemError and Cancelled are final for the job.
const (
	Pending     State = "pending"
	Leased      State = "leased"
	Done        State = "done"
	SystemError State = "system_error"
	Cancelled   State = "cancelled"
)

// Final says whether nothing can happen to a job in this state any more.
func (s State) Final() bool { return s == Done || s == SystemError || s == Cancelled }

// Outcome is how an attempt ended.
type Outcome string

// The outcomes.
const (
	Running      Outcome = "running"
	Completed    Outcome = "completed"
	Failed       Outcome = "failed"
	Expired      Outcome = "expired"
	Undelivered  Outcome = "undelivered"
	Released     Outcome = "released"
	WasCancelled Outcome = "cancelled"
)

// Event is something that happens to a job.
type Event string

// The events. Result, Fault, Release and Heartbeat come from a worker and are
// valid only with the token of the live lease; the caller has checked it.
const (
	Grant     Event = "grant"
	Heartbeat Event = "heartbeat"
	Result    Event = "result"
	Fault     Event = "fault"
	Release   Event = "release"
	Expire    Event = "expire"
	Cancel    Event = "cancel"
)

// Job is what the rules look at.
type Job struct {
	State     State
	Gen       int64 // lease_gen: grows with each grant, never reused (I1)
	Attempts  int
	Confirmed bool
}

// Apply says what event does to j. ok is false when the event cannot happen in
// this state; the job is then unchanged. outcome is what becomes of the open
// attempt, Running when it stays open or there is none.
func Apply(j Job, event Event, attemptCap int) (next Job, outcome Outcome, ok bool) {
	next, outcome = j, Running
	if event == Cancel && !j.State.Final() {
		if j.State == Leased {
			outcome = WasCancelled
		}
		next.State = Cancelled
		return next, outcome, true
	}
	if event == Grant {
		if j.State != Pending {
			return j, Running, false
		}
		next = Job{State: Leased, Gen: j.Gen + 1, Attempts: j.Attempts + 1}
		return next, Running, true
	}
	if j.State != Leased {
		return j, Running, false
	}
	again := func(refund int, o Outcome) (Job, Outcome, bool) {
		return Job{State: Pending, Gen: j.Gen, Attempts: j.Attempts - refund}, o, true
	}
	end := func(s State, o Outcome) (Job, Outcome, bool) {
		return Job{State: s, Gen: j.Gen, Attempts: j.Attempts, Confirmed: j.Confirmed}, o, true
	}
	switch event {
	case Heartbeat:
		next.Confirmed = true
		return next, Running, true
	case Result:
		return end(Done, Completed)
	case Release:
		return again(1, Released)
	case Fault:
		if j.Attempts >= attemptCap {
			return end(SystemError, Failed)
		}
		return again(0, Failed)
	case Expire:
		switch {
		case !j.Confirmed:
			return again(1, Undelivered)
		case j.Attempts >= attemptCap:
			return end(SystemError, Expired)
		}
		return again(0, Expired)
	}
	return j, Running, false
}

// EndReason says to a worker why its lease is dead, from the outcome of the
// attempt. The strings are those of gavelapi.
func EndReason(o Outcome) string {
	switch o {
	case Completed, Failed:
		return "finished"
	case Expired, Undelivered:
		return "expired"
	case Released:
		return "released"
	case WasCancelled:
		return "cancelled"
	}
	return "unknown"
}
