package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/worker/arbitertest"
)

// A4: the retry carries the same request_id and gets the same lease.
func TestLostAnswerToAClaimCostsNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		digest := arb.AddPackage(t, "a", 1, 1)
		arb.Fault = func(c arbitertest.Call) arbitertest.Fault {
			if c.Op == "claim" && c.N <= 2 {
				return arbitertest.Lose
			}
			return arbitertest.None
		}
		id := arb.Submit(digest, gavelapi.Lease{})
		newRig(t, arb, takes(time.Second), nil).start()
		job := arb.AwaitState(t, time.Minute, id, "done")
		if len(job.Attempts) != 1 {
			t.Errorf("attempts %+v", job.Attempts)
		}
		claims := arb.Claims()
		if claims[0].RequestID != claims[1].RequestID || claims[1].RequestID != claims[2].RequestID {
			t.Error("a retried claim got a new request_id")
		}
		arb.Await(t, time.Minute, "a next claim", func() bool { return len(arb.Claims()) > 3 })
		if claims = arb.Claims(); claims[3].RequestID == claims[0].RequestID {
			t.Error("a new claim kept the old request_id")
		}
	})
}

// A5: the second report gets the same answer, and the outbox is empty only then.
func TestLostAnswerToAResultIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		digest := arb.AddPackage(t, "a", 1, 1)
		var r *rig
		arb.Fault = func(c arbitertest.Call) arbitertest.Fault {
			if c.Op == "result" && c.N <= 3 {
				if left, _ := r.w.outbox.scan(); len(left) != 1 {
					t.Errorf("result %d is under way and %d entries are on disk", c.N, len(left))
				}
				return arbitertest.Lose
			}
			return arbitertest.None
		}
		r = newRig(t, arb, takes(time.Second), nil).start()
		id := arb.Submit(digest, gavelapi.Lease{})
		arb.AwaitState(t, time.Minute, id, "done")
		arb.Await(t, time.Minute, "four reports", func() bool { return arb.Count("result") == 4 })
		synctest.Wait()
		if left, _ := r.w.outbox.scan(); len(left) != 0 {
			t.Errorf("the answered result is still in the outbox: %v", left)
		}
		if r.logs.count("outcome=already_recorded") != 1 {
			t.Error("the second answer was not understood")
		}
	})
}

// I4, L38.
func TestWorkerNeverHoldsMoreLeasesThanSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		digest := arb.AddPackage(t, "a", 1, 1)
		e := takes(700 * time.Millisecond)
		var ids []int64
		for range 50 {
			ids = append(ids, arb.Submit(digest, gavelapi.Lease{}))
		}
		newRig(t, arb, e, func(c *Config) { c.Slots = 4 }).start()
		for _, id := range ids {
			arb.AwaitState(t, time.Minute, id, "done")
		}
		if e.most != 4 || arb.MaxLeases() > 4 {
			t.Errorf("%d runs and %d leases at once, want 4", e.most, arb.MaxLeases())
		}
		if n := arb.Count("package"); n != 1 {
			t.Errorf("the package was fetched %d times", n)
		}
	})
}

func TestDrainedWorkerFinishesClaimsNothingAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		digest := arb.AddPackage(t, "a", 1, 1)
		r := newRig(t, arb, takes(40*time.Second), func(c *Config) { c.Slots = 2 }).start()
		running := arb.Submit(digest, gavelapi.Lease{})
		arb.AwaitState(t, time.Minute, running, "leased")
		arb.Drain(true)
		waiting := arb.Submit(digest, gavelapi.Lease{})
		before := arb.Count("claim")
		arb.AwaitState(t, 2*time.Minute, running, "done")
		sleep(t, 10*time.Minute)
		if n := arb.Count("claim") - before; n > 25 {
			t.Errorf("%d claims in ten minutes of drain", n)
		}
		if r.logs.count("drains this worker") != 1 {
			t.Error("the drain was not said once")
		}
		arb.Drain(false)
		arb.AwaitState(t, 2*time.Minute, waiting, "done")
		if r.logs.count("drain is over") != 1 {
			t.Error("the end of the drain was not said")
		}
	})
}

// L32: results are kept, the load stays small, nobody restarts anything.
func TestArbiterAwayForMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		arb.TTL = 20 * time.Minute // as if its grace let the leases live
		digest := arb.AddPackage(t, "a", 1, 1)
		var away bool
		awayFrom := time.Now().Add(time.Minute)
		arb.Fault = func(c arbitertest.Call) arbitertest.Fault {
			away = c.At.After(awayFrom) && c.At.Before(awayFrom.Add(10*time.Minute))
			switch {
			case away && c.N%2 == 0:
				return arbitertest.Busy
			case away:
				return arbitertest.Cut
			}
			return arbitertest.None
		}
		e := takes(2 * time.Minute)
		r := newRig(t, arb, e, func(c *Config) { c.Slots = 3 }).start()
		first, second := arb.Submit(digest, gavelapi.Lease{}), arb.Submit(digest, gavelapi.Lease{})
		arb.AwaitState(t, time.Hour, first, "done")
		arb.AwaitState(t, time.Hour, second, "done")
		if n := len(arb.Job(first).Attempts) + len(arb.Job(second).Attempts); n != 2 || e.calls() != 2 {
			t.Errorf("%d attempts, %d runs for 2 jobs", n, e.calls())
		}
		n := 0
		for _, c := range arb.Calls("") {
			if c.Op != "heartbeat" && c.At.After(awayFrom) && c.At.Before(awayFrom.Add(10*time.Minute)) {
				n++
			}
		}
		// A claim about every 10 s, and two reports about every 15 s or more.
		if n < 10 || n > 180 {
			t.Errorf("%d calls besides heartbeats in ten minutes", n)
		}
		if said := r.logs.count("arbiter does not answer"); said < 9 || said > 12 {
			t.Errorf("the absence was said %d times in 10 minutes", said)
		}
		// A claim that was parked before still gets its answer in between.
		if n := r.logs.count("arbiter answers again"); n < 1 || n > 2 {
			t.Errorf("the return was said %d times", n)
		}
	})
}

// Pauses have grown to half a minute by then, each its own.
func TestAllThatWaitedIsSentWhenTheArbiterIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		digest := arb.AddPackage(t, "a", 1, 1)
		from, until := time.Now().Add(time.Minute), time.Now().Add(9*time.Minute)
		arb.Fault = func(c arbitertest.Call) arbitertest.Fault {
			if c.At.After(from) && c.At.Before(until) {
				return arbitertest.Busy
			}
			return arbitertest.None
		}
		const jobs = 8
		newRig(t, arb, takes(70*time.Second), func(c *Config) { c.Slots = jobs }).start()
		for range jobs {
			arb.Submit(digest, gavelapi.Lease{})
		}
		var back time.Time
		var late []time.Time
		arb.Await(t, 12*time.Minute, "all results are sent", func() bool {
			back, late = time.Time{}, nil
			for _, c := range arb.Calls("") {
				if c.At.After(until) {
					if back.IsZero() {
						back = c.At
					}
					if c.Op == "result" {
						late = append(late, c.At)
					}
				}
			}
			return len(late) == jobs
		})
		if d := late[jobs-1].Sub(back); d > 2*returnSpread {
			t.Errorf("the last result was sent %v after the arbiter was back", d)
		}
	})
}

// An arbiter that is back gives leases a grace of their TTL: no pause is longer.
func TestAResultIsSentSeveralTimesInATTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		arb.TTL, arb.Heartbeat = 20*time.Second, 5*time.Second
		digest := arb.AddPackage(t, "a", 1, 1)
		away := false
		arb.Fault = func(c arbitertest.Call) arbitertest.Fault {
			if away = away || c.Op == "result"; away {
				return arbitertest.Cut
			}
			return arbitertest.None
		}
		newRig(t, arb, takes(time.Second), nil).start()
		arb.Submit(digest, gavelapi.Lease{})
		sleep(t, 10*time.Minute)
		calls := arb.Calls("result")
		if len(calls) < 50 {
			t.Errorf("%d tries in ten minutes", len(calls))
		}
		for i := range len(calls) - 1 {
			if d := calls[i+1].At.Sub(calls[i].At); d > 10*time.Second {
				t.Errorf("a pause of %v", d)
			}
		}
	})
}

func TestArbiterThatIsNotThereAtStartIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		digest := arb.AddPackage(t, "a", 1, 1)
		from := time.Now()
		arb.Fault = func(c arbitertest.Call) arbitertest.Fault {
			if c.At.Sub(from) < 5*time.Minute {
				return arbitertest.Cut
			}
			return arbitertest.None
		}
		r := newRig(t, arb, takes(time.Second), nil).start()
		id := arb.Submit(digest, gavelapi.Lease{})
		arb.AwaitState(t, 7*time.Minute, id, "done")
		if said := r.logs.count("arbiter does not answer"); said < 4 || said > 6 {
			t.Errorf("said %d times in 5 minutes", said)
		}
		if n := arb.Count("claim"); n < 25 || n > 60 { // about every ten seconds
			t.Errorf("%d claims in 5 minutes", n)
		}
	})
}

func TestArbiterThatDoesNotHoldClaimsIsNotAskedInACircle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		from := time.Now()
		arb.Fault = func(c arbitertest.Call) arbitertest.Fault {
			if c.Op == "claim" && c.At.Sub(from) < 10*time.Minute {
				return arbitertest.Empty
			}
			return arbitertest.None
		}
		newRig(t, arb, takes(time.Second), nil).start()
		sleep(t, 10*time.Minute)
		if n := arb.Count("claim"); n < 10 || n > 100 {
			t.Errorf("%d claims in 10 minutes", n)
		}
		id := arb.Submit(arb.AddPackage(t, "a", 1, 1), gavelapi.Lease{})
		arb.AwaitState(t, time.Minute, id, "done")
	})
}

func TestRefusalsEndTheAgent(t *testing.T) {
	for name, tc := range map[string]struct {
		fault arbitertest.Fault
		op    string
		want  error
	}{
		"403 to a claim":     {arbitertest.Forbidden, "claim", ErrRefused},
		"403 to a heartbeat": {arbitertest.Forbidden, "heartbeat", ErrRefused},
		"403 to a result":    {arbitertest.Forbidden, "result", ErrRefused},
		"426 to a claim":     {arbitertest.Outdated, "claim", ErrProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				arb := arbitertest.New()
				digest := arb.AddPackage(t, "a", 1, 1)
				arb.Fault = func(c arbitertest.Call) arbitertest.Fault {
					if c.Op == tc.op {
						return tc.fault
					}
					return arbitertest.None
				}
				arb.Submit(digest, gavelapi.Lease{})
				r := newRig(t, arb, takes(time.Second), nil).start()
				began := time.Now()
				if err := r.exit(); !errors.Is(err, tc.want) {
					t.Errorf("Run returned %v", err)
				}
				if d := time.Since(began); d > 30*time.Second {
					t.Errorf("it took %v", d)
				}
				if left, _ := r.w.outbox.scan(); tc.op == "result" && len(left) != 1 {
					t.Error("the refused worker's result is not kept for a better token")
				}
			})
		})
	}
}

// A19: the same worker twice is refused while the first lives.
func TestSecondProcessElsewhereWithTheSameTokenWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		digest := arb.AddPackage(t, "a", 1, 1)
		first := newRig(t, arb, takes(time.Second), nil).start()
		arb.Await(t, time.Minute, "first claim", func() bool { return arb.Count("claim") == 1 })
		second := newRig(t, arb, takes(time.Second), nil).start()
		sleep(t, 5*time.Minute)
		if n := second.logs.count("another live process works as this worker"); n < 4 || n > 6 {
			t.Errorf("said %d times in five minutes", n)
		}
		if _, err := first.stop(); err != nil {
			t.Error(err)
		}
		id := arb.Submit(digest, gavelapi.Lease{})
		arb.AwaitState(t, 3*time.Minute, id, "done")
	})
}

// A13: the work is released at once, the attempt refunded, nothing stored.
func TestStopHandsBackAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		digest := arb.AddPackage(t, "a", 1, 1)
		e := takes(time.Minute)
		r := newRig(t, arb, e, func(c *Config) { c.Slots = 3 }).start()
		var ids []int64
		for range 3 {
			ids = append(ids, arb.Submit(digest, gavelapi.Lease{}))
		}
		arb.Await(t, time.Minute, "three runs", func() bool { return e.calls() == 3 })
		took, err := r.stop()
		if err != nil || took > 100*time.Millisecond {
			t.Errorf("stopped after %v: %v", took, err)
		}
		for _, id := range ids {
			if job := arb.Job(id); job.State != "pending" || job.Attempts[0].Outcome != "released" || job.Report != nil {
				t.Errorf("job %+v", job)
			}
		}
	})
}

func TestStopGivesRunningWorkItsGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		digest := arb.AddPackage(t, "a", 1, 1)
		e := &engine{do: func(ctx context.Context, task judge.Task, _ func(judge.Progress)) (*judge.Report, error) {
			d := 20 * time.Second
			if task.SourceName == "long" {
				d = time.Hour
			}
			if err := client.Sleep(ctx, d); err != nil {
				return nil, err
			}
			return accepts(task), nil
		}}
		r := newRig(t, arb, e, func(c *Config) { c.Slots, c.Grace = 3, 30*time.Second }).start()
		short, long := arb.Submit(digest, gavelapi.Lease{}), arb.Submit(digest, gavelapi.Lease{SourceName: "long"})
		arb.Await(t, time.Minute, "two runs", func() bool { return e.calls() == 2 })
		claims := arb.Count("claim")
		took, err := r.stop()
		if err != nil || took < 30*time.Second || took > 31*time.Second {
			t.Errorf("stopped after %v: %v", took, err)
		}
		if s, l := arb.Job(short), arb.Job(long); s.State != "done" || l.Attempts[0].Outcome != "released" {
			t.Errorf("short %+v, long %+v", s, l)
		}
		if n := arb.Count("claim"); n != claims {
			t.Errorf("%d claims while stopping", n-claims)
		}
	})
}

func TestSecondSignalEndsTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		digest := arb.AddPackage(t, "a", 1, 1)
		e := takes(time.Hour)
		r := newRig(t, arb, e, func(c *Config) { c.Grace = 30 * time.Minute }).start()
		id := arb.Submit(digest, gavelapi.Lease{})
		arb.Await(t, time.Minute, "a run", func() bool { return e.calls() == 1 })
		time.AfterFunc(time.Minute, r.w.HandBack)
		if took, err := r.stop(); err != nil || took > 61*time.Second {
			t.Errorf("stopped after %v: %v", took, err)
		}
		if job := arb.Job(id); job.Attempts[0].Outcome != "released" {
			t.Errorf("job %+v", job)
		}
	})
}

// A stop must not wait for an arbiter that is away, and what is finished waits
// on disk for the next start, which sends it first (A9).
func TestResultSurvivesAStopAndIsSentBeforeTheNextClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		digest := arb.AddPackage(t, "a", 1, 1)
		arb.Fault = func(c arbitertest.Call) arbitertest.Fault {
			if c.Op == "result" {
				return arbitertest.Cut
			}
			return arbitertest.None
		}
		dir := t.TempDir()
		r := newRig(t, arb, takes(time.Second), func(c *Config) { c.StateDir = dir }).start()
		id := arb.Submit(digest, gavelapi.Lease{})
		arb.Await(t, time.Minute, "a report", func() bool { return arb.Count("result") == 1 })
		if took, err := r.stop(); err != nil || took > 6*time.Second {
			t.Errorf("stopped after %v: %v", took, err)
		}
		if job := arb.Job(id); job.State != "leased" {
			t.Errorf("a finished job was given back: %+v", job)
		}
		arb.Fault = nil
		calls := len(arb.Calls(""))
		e := takes(time.Second)
		newRig(t, arb, e, func(c *Config) { c.StateDir = dir }).start()
		job := arb.AwaitState(t, 10*time.Second, id, "done")
		if len(job.Attempts) != 1 || e.calls() != 0 {
			t.Errorf("judged again: %+v", job)
		}
		if op := arb.Calls("")[calls].Op; op != "result" {
			t.Errorf("the first call after the start is a %s", op)
		}
	})
}

func TestResultOfADeadLeaseIsDiscardedAndForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		digest := arb.AddPackage(t, "a", 1, 1)
		arb.Fault = func(c arbitertest.Call) arbitertest.Fault {
			if c.Op == "result" && c.N < 3 {
				return arbitertest.Busy
			}
			return arbitertest.None
		}
		r := newRig(t, arb, takes(time.Second), nil).start()
		id := arb.Submit(digest, gavelapi.Lease{})
		arb.Await(t, time.Minute, "a report", func() bool { return arb.Count("result") == 1 })
		arb.Expire(id)
		job := arb.AwaitState(t, time.Minute, id, "done")
		arb.Await(t, time.Minute, "the late report", func() bool { return arb.Job(id).Attempts[0].Late == 1 })
		if job.Attempts[0].Outcome != "expired" || job.Attempts[1].Outcome != "completed" {
			t.Errorf("attempts %+v", job.Attempts)
		}
		synctest.Wait()
		if left, _ := r.w.outbox.scan(); len(left) != 0 || r.logs.count("discarded") == 0 {
			t.Errorf("the discarded result is still there: %v", left)
		}
	})
}

func TestResultThatTheArbiterCannotReadIsSetAsideAndReportedAsAFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		digest := arb.AddPackage(t, "a", 1, 1)
		arb.Fault = func(c arbitertest.Call) arbitertest.Fault {
			if c.Op == "result" && c.N == 1 {
				return arbitertest.BadInput
			}
			return arbitertest.None
		}
		r := newRig(t, arb, takes(time.Second), nil).start()
		id := arb.Submit(digest, gavelapi.Lease{})
		job := arb.AwaitState(t, time.Minute, id, "failed")
		if job.Report.Fault == nil || job.Report.Verdict != "" {
			t.Errorf("report %+v", job.Report)
		}
		synctest.Wait()
		if names := list(t, r.w.outbox.dir+"/bad"); len(names) != 1 {
			t.Errorf("set aside: %v", names)
		}
	})
}

func TestOldResultThatBreaksTheArbiterDoesNotBlockNewWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		digest := arb.AddPackage(t, "a", 1, 1)
		dir := t.TempDir()
		arb.Fault = func(c arbitertest.Call) arbitertest.Fault {
			if c.Op == "result" && c.N < 8 {
				return arbitertest.Broken
			}
			return arbitertest.None
		}
		box, err := openOutbox(dir+"/outbox", discard)
		if err != nil {
			t.Fatal(err)
		}
		if err := box.put(entry{LeaseToken: "old", Report: gavelapi.Report{Verdict: "AC"}}); err != nil {
			t.Fatal(err)
		}
		e := takes(time.Second)
		newRig(t, arb, e, func(c *Config) { c.StateDir = dir }).start()
		arb.Submit(digest, gavelapi.Lease{})
		arb.Await(t, time.Minute, "new work", func() bool { return e.calls() == 1 })
		arb.Await(t, 10*time.Minute, "the old result answered", func() bool { return len(list(t, dir+"/outbox")) == 1 })
	})
}
