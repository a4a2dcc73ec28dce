package sim

import "time"

// status of an answer, by its HTTP code.
type status int

const (
	ok          status = 200
	forbidden   status = 403
	conflict    status = 409
	gone        status = 410
	unavailable status = 503
	noAnswer    status = 0 // the call timed out
)

// answer is what an arbiter says to a worker.
type answer struct {
	status   status
	leases   []Granted
	outcome  string // of a result
	released bool
}

// Outcomes of a result.
const (
	recorded        = "recorded"
	alreadyRecorded = "already_recorded"
	discarded       = "discarded"
)

type claimRequest struct {
	worker            int64
	session, previous Session
	request           Request
	slots, total      int
	wait              time.Duration
	languages         []string
}

// report is what a worker says about a finished job.
type report struct {
	job     int64 // for the worker's own log
	token   Token
	verdict string // "" for a fault
}

// call is one request of a worker with the time it may take. then is called
// once, with noAnswer when the time is over. serve runs at the arbiter, perhaps
// twice, perhaps after the caller has given up.
func (k *worker) call(limit time.Duration, serve func(a *arbiter, reply func(answer)), then func(answer)) *openCall {
	w := k.w
	a := w.arbiters[k.target]
	c := &openCall{}
	caller := k.epoch
	end := func(ans answer) {
		if c.over || k.epoch != caller { // another process has the worker's name by now
			return
		}
		c.over = true
		if ans.status == noAnswer || ans.status == unavailable {
			k.target = (k.target + 1) % len(w.arbiters)
		}
		then(ans)
	}
	if !a.up { // refused at once
		k.after(5*time.Millisecond, func() { end(answer{status: unavailable}) })
		return c
	}
	w.send(&k.process, &a.process, func() {
		serve(a, func(ans answer) { w.send(&a.process, &k.process, func() { end(ans) }) })
	})
	k.after(limit, func() { end(answer{}) })
	return c
}

// openCall is a call that waits for its answer.
type openCall struct{ over bool }
