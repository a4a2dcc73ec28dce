package worker

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/verdict"
	"github.com/gavel-oj/gavel/internal/worker/arbitertest"
)

func TestJobIsJudgedAndReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		digest := arb.AddPackage(t, "a", 2, 100)
		e := &engine{do: func(ctx context.Context, task judge.Task, progress func(judge.Progress)) (*judge.Report, error) {
			progress(judge.Progress{Phase: judge.PhaseCompiling})
			_ = client.Sleep(ctx, 6*time.Second)
			progress(judge.Progress{Phase: judge.PhaseRunning, TestsDone: 1, TestsTotal: 2})
			_ = client.Sleep(ctx, 4*time.Second) // before the next heartbeat, which would say "reporting"
			return &judge.Report{
				Verdict: verdict.WA, Toolchain: "g++ 12", CheckerToolchain: "python 3",
				Compile: judge.Compile{OK: true, Log: "warning", CPU: time.Second, Wall: 2 * time.Second, Cached: true, Precompiled: true, Header: "redone"},
				Tests: []judge.Test{
					{Name: "secret/00", Verdict: verdict.AC, CPU: 5 * time.Microsecond, Wall: 9 * time.Microsecond, MemoryBytes: 7},
					{Name: "secret/01", Verdict: verdict.WA, Reason: verdict.ReasonChecker, CPU: 3 * time.Microsecond, MemoryBytes: 8, ExitCode: 1, Signal: 2, OutputBytes: 3, Message: "no"},
				},
				Stages: map[string]time.Duration{"compile": time.Second},
			}, nil
		}}
		r := newRig(t, arb, e, nil).start()
		id := arb.Submit(digest, gavelapi.Lease{Language: "cpp17", Source: []byte("int main(){}"), StopRule: "all"})
		job := arb.AwaitState(t, time.Minute, id, "done")

		want := &gavelapi.Report{
			Verdict: "WA", CPUUS: 5, WallUS: 9, MemoryBytes: 8,
			Compile: gavelapi.CompileInfo{Log: "warning", CPUUS: 1e6, WallUS: 2e6, Cached: true, Precompiled: true, Header: "redone"},
			Tests: []gavelapi.TestResult{
				{Name: "secret/00", Verdict: "AC", CPUUS: 5, WallUS: 9, MemoryBytes: 7},
				{Name: "secret/01", Verdict: "WA", Reason: "checker", CPUUS: 3, MemoryBytes: 8, ExitCode: 1, Signal: 2, OutputBytes: 3, Message: "no"},
			},
			Limits: job.Lease.Limits,
			Provenance: gavelapi.Provenance{
				WorkerBuild: "test", Kernel: "6.1", MemoryMeter: "cgroup2", CPUMeter: "cgroup2",
				Toolchain: "g++ 12", CheckerToolchain: "python 3", PackageDigest: digest,
				Stages: map[string]int64{"confirm": 0, "fetch": 0, "judge": 10e6, "compile": 1e6},
			},
		}
		if d := cmp.Diff(want, job.Report); d != "" {
			t.Error(d)
		}
		if e.tasks[0].Stop != judge.StopAll || e.tasks[0].Limits.Wall != 3*time.Second || string(e.tasks[0].Source) != "int main(){}" {
			t.Errorf("task: %+v", e.tasks[0])
		}
		if got := arb.Phases(id); !slices.Equal(got, []string{"fetching", "compiling", "running"}) {
			t.Errorf("phases: %q", got)
		}
		if n := arb.Count("result"); n != 1 {
			t.Errorf("%d results", n)
		}
		synctest.Wait()
		if left, err := r.w.outbox.scan(); err != nil || len(left) != 0 {
			t.Errorf("outbox: %v, %v", left, err)
		}
	})
}

// A judging of four seconds ends before the second heartbeat is due; its phases
// are shown all the same.
func TestANewPhaseIsToldBeforeTheNextHeartbeatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		digest := arb.AddPackage(t, "a", 1, 1)
		e := &engine{do: func(ctx context.Context, task judge.Task, progress func(judge.Progress)) (*judge.Report, error) {
			progress(judge.Progress{Phase: judge.PhaseCompiling})
			_ = client.Sleep(ctx, 2*time.Second)
			for range 20 {
				progress(judge.Progress{Phase: judge.PhaseRunning, TestsTotal: 1})
				_ = client.Sleep(ctx, 100*time.Millisecond)
			}
			return accepts(task), nil
		}}
		newRig(t, arb, e, nil).start()
		id := arb.Submit(digest, gavelapi.Lease{Language: "cpp17"})
		arb.AwaitState(t, time.Minute, id, "done")
		if got := arb.Phases(id); !slices.Equal(got, []string{"fetching", "compiling", "running"}) {
			t.Errorf("phases: %q", got)
		}
		if n := arb.Count("heartbeat"); n != 3 {
			t.Errorf("%d heartbeats: one for each phase was wanted, and none for each test", n)
		}
	})
}

func TestNoWorkStartsBeforeTheFirstHeartbeatIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		digest := arb.AddPackage(t, "a", 1, 1)
		e := takes(time.Second)
		arb.Fault = faults(func(c arbitertest.Call) arbitertest.Fault {
			if c.Op == "heartbeat" && c.N <= 3 {
				return arbitertest.Busy
			}
			return arbitertest.None
		})
		newRig(t, arb, e, nil).start()
		id := arb.Submit(digest, gavelapi.Lease{})
		arb.Await(t, time.Minute, "three heartbeats", func() bool { return arb.Count("heartbeat") >= 3 })
		if e.calls() != 0 || arb.Count("package") != 0 {
			t.Error("work began on an unconfirmed lease")
		}
		if job := arb.AwaitState(t, time.Minute, id, "done"); len(job.Attempts) != 1 {
			t.Errorf("attempts: %+v", job.Attempts)
		}
	})
}

func TestLeaseGivenBackBeforeItWasConfirmedIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		digest := arb.AddPackage(t, "a", 1, 1)
		e := takes(time.Second)
		arb.Fault = faults(func(c arbitertest.Call) arbitertest.Fault {
			if c.Op == "heartbeat" && c.N <= 2 {
				return arbitertest.Hang // past the time for confirming
			}
			return arbitertest.None
		})
		newRig(t, arb, e, nil).start()
		id := arb.Submit(digest, gavelapi.Lease{})
		job := arb.AwaitState(t, 3*time.Minute, id, "done")
		if e.calls() != 1 || len(job.Attempts) != 2 || job.Attempts[0].Outcome != "undelivered" {
			t.Errorf("%d runs, attempts %+v", e.calls(), job.Attempts)
		}
	})
}

// A download and a judging that last for minutes: the heartbeats keep their
// period and the lease lives (L11, L30).
func TestHeartbeatsKeepTheirPeriodBesideDownloadAndJudging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		digest := arb.AddPackage(t, "a", 10, 100_000)
		arb.Fault = faults(func(c arbitertest.Call) arbitertest.Fault {
			switch {
			case c.Op == "package" && c.N <= 4:
				return arbitertest.Hang // each ends after the stall time
			case c.Op == "package" && c.N <= 8:
				return arbitertest.HalfWay
			}
			return arbitertest.None
		})
		newRig(t, arb, takes(2*time.Minute), nil).start()
		began := time.Now()
		id := arb.Submit(digest, gavelapi.Lease{})
		job := arb.AwaitState(t, time.Hour, id, "done")
		if took := time.Since(began); took < 4*time.Minute {
			t.Errorf("all over after %v: this tested nothing", took)
		}
		if gap := arb.MaxGap(); gap > 5500*time.Millisecond {
			t.Errorf("a heartbeat was %v late", gap)
		}
		if len(job.Attempts) != 1 {
			t.Errorf("attempts %+v", job.Attempts)
		}
	})
}

// L39, I9: the holder stops by itself before the arbiter's expiry, counting
// from the moment the last answered heartbeat was sent.
func TestRunIsKilledWhenNoHeartbeatIsAnsweredForTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		digest := arb.AddPackage(t, "a", 1, 1)
		var killed atomic.Pointer[time.Time]
		e := &engine{do: func(ctx context.Context, _ judge.Task, _ func(judge.Progress)) (*judge.Report, error) {
			<-ctx.Done()
			now := time.Now()
			killed.CompareAndSwap(nil, &now)
			return nil, context.Cause(ctx)
		}}
		arb.Fault = faults(func(c arbitertest.Call) arbitertest.Fault {
			switch {
			case c.Op == "heartbeat" && c.N == 3:
				return arbitertest.Slow // extends the lease, and its answer is late
			case c.Op == "heartbeat" && c.N > 3:
				return arbitertest.Hang
			case c.Op == "claim" && c.N > 1:
				return arbitertest.Hang
			}
			return arbitertest.None
		})
		r := newRig(t, arb, e, nil).start()
		id := arb.Submit(digest, gavelapi.Lease{})
		arb.AwaitState(t, time.Minute, id, "leased")
		arb.AwaitState(t, 3*time.Minute, id, "pending") // the arbiter's own expiry
		at := killed.Load()
		if at == nil {
			t.Fatal("the lease expired and the run goes on")
		}
		if r.logs.count("arbiter does not answer") == 0 {
			t.Error("unanswered heartbeats were not said")
		}
		last := arb.Calls("heartbeat")[2].At // the last one that was answered
		if d := at.Sub(last); d > 55*time.Second || d < 50*time.Second {
			t.Errorf("killed %v after the last answered heartbeat was sent", d)
		}
		if n := arb.Count("result") + arb.Count("release"); n != 0 {
			t.Errorf("%d calls for a lost lease", n)
		}
		if left, _ := r.w.outbox.scan(); len(left) != 0 {
			t.Errorf("work of a lost lease was kept: %v", left)
		}
	})
}

func TestLeaseThatIsGoneKillsTheRunAndTheNextOneIsNormal(t *testing.T) {
	for _, after := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second, 7 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				arb := arbitertest.New()
				digest := arb.AddPackage(t, "a", 1, 1)
				newRig(t, arb, takes(20*time.Second), nil).start()
				id := arb.Submit(digest, gavelapi.Lease{})
				arb.Await(t, time.Minute, "leased", func() bool { return arb.Job(id).State == "leased" })
				sleep(t, after)
				arb.Cancel(id)
				next := arb.Submit(digest, gavelapi.Lease{})
				began := time.Now()
				arb.AwaitState(t, time.Minute, next, "done")
				if d := time.Since(began); d > 26*time.Second {
					t.Errorf("the next job took %v: the cancelled one held the slot", d)
				}
				if job := arb.Job(id); job.State != "cancelled" || job.Report != nil || job.Attempts[0].Late != 0 {
					t.Errorf("the cancelled job: %+v", job)
				}
			})
		})
	}
}

// The directive is a hint that may be late; the lease's own heartbeat decides.
func TestCancelDirectiveIsCheckedAtOnceAgainstTheLease(t *testing.T) {
	for name, dead := range map[string]bool{"the lease is dead": true, "the directive is about an older lease": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				arb := arbitertest.New()
				arb.Heartbeat, arb.TTL = 20*time.Second, 60*time.Second
				digest := arb.AddPackage(t, "a", 1, 1)
				e := takes(50 * time.Second)
				newRig(t, arb, e, func(c *Config) { c.Slots = 2 }).start()
				first := arb.Submit(digest, gavelapi.Lease{})
				arb.Await(t, time.Minute, "running", func() bool { return e.calls() == 1 })
				sleep(t, time.Second)
				if dead {
					arb.Cancel(first)
				}
				arb.Direct(first)
				arb.Submit(digest, gavelapi.Lease{}) // its claim's answer carries the directive
				arb.Await(t, time.Minute, "a second run", func() bool { return e.calls() == 2 })
				sleep(t, 5*time.Second) // heartbeats keep a fifth of their period apart; the next one by itself is later
				synctest.Wait()
				e.mu.Lock()
				running := e.running
				e.mu.Unlock()
				if want := map[bool]int{true: 1, false: 2}[dead]; running != want {
					t.Errorf("%d runs right after the directive, want %d", running, want)
				}
			})
		})
	}
}

func TestStuckRunLosesItsHeartbeatsAndBecomesAFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		digest := arb.AddPackage(t, "a", 1, 1)
		r := newRig(t, arb, takes(24*time.Hour), nil).start()
		began := time.Now()
		id := arb.Submit(digest, gavelapi.Lease{})
		job := arb.AwaitState(t, time.Hour, id, "failed")
		// slack 60 + compile 60+2 + 3 × (3+2) + 3 × 5 seconds
		if d := time.Since(began); d < 150*time.Second || d > 160*time.Second {
			t.Errorf("stopped after %v", d)
		}
		if job.Report.Fault.Blame != gavelapi.BlameHost || r.logs.count("run is stuck") != 1 {
			t.Errorf("report %+v", job.Report)
		}
	})
}

// A probe must not hide a dead slot: an engine that ignores its end gets no
// heartbeats, and its job goes to somebody else when the lease expires.
func TestSlotThatDoesNotDieIsSilentAndTheOthersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		digest := arb.AddPackage(t, "a", 1, 1)
		hang := make(chan struct{})
		e := takes(time.Second)
		quick := e.do
		e.do = func(ctx context.Context, task judge.Task, p func(judge.Progress)) (*judge.Report, error) {
			if task.SourceName == "hang" && e.calls() == 1 {
				<-hang
				return nil, errors.New("late")
			}
			return quick(ctx, task, p)
		}
		r := newRig(t, arb, e, func(c *Config) { c.Slots = 2 }).start()
		id := arb.Submit(digest, gavelapi.Lease{SourceName: "hang"})
		job := arb.AwaitState(t, time.Hour, id, "done") // by the other slot
		if len(job.Attempts) != 2 || job.Attempts[0].Outcome != "expired" {
			t.Errorf("attempts %+v", job.Attempts)
		}
		for _, req := range arb.Claims()[2:] {
			if req.Slots != 1 {
				t.Errorf("a dead slot was offered: %+v", req)
			}
		}
		close(hang)
		arb.Await(t, 2*time.Minute, "the slot is offered again", func() bool { c := arb.Claims(); return c[len(c)-1].Slots == 2 })
		r.w.cache.mu.Lock()
		if refs := r.w.cache.held[digest].refs; refs != 0 {
			t.Errorf("the package is still in use %d times", refs)
		}
		r.w.cache.mu.Unlock()
		if r.logs.count("the slot is lost") != 1 || r.logs.count("the slot is back") != 1 {
			t.Error("the log does not say what happened to the slot")
		}
	})
}

func TestAgentWithOnlyDeadSlotsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		digest := arb.AddPackage(t, "a", 1, 1)
		hang := make(chan struct{})
		r := newRig(t, arb, &engine{do: func(context.Context, judge.Task, func(judge.Progress)) (*judge.Report, error) {
			<-hang
			return nil, errors.New("late")
		}}, nil).start()
		arb.Submit(digest, gavelapi.Lease{})
		if err := r.exit(); !errors.Is(err, ErrSlotsStuck) {
			t.Errorf("Run returned %v", err)
		}
		close(hang)
	})
}

func TestWhateverTheEngineDoesIsNeverAVerdictOnTheUser(t *testing.T) {
	boom := errors.New("boom")
	for name, tc := range map[string]struct {
		do      func(judge.Task) (*judge.Report, error)
		blame   string
		message string
	}{
		"toolchain fault": {func(judge.Task) (*judge.Report, error) {
			return nil, &judge.Fault{Blame: judge.BlameToolchain, Message: "g++ is gone", Err: boom}
		}, "toolchain", "g++ is gone: boom"},
		"package fault": {func(judge.Task) (*judge.Report, error) {
			return nil, &judge.Fault{Blame: judge.BlamePackage, Message: "no test"}
		}, "package", "no test"},
		"checker fault": {func(judge.Task) (*judge.Report, error) {
			return nil, &judge.Fault{Blame: judge.BlameChecker, Message: "it crashed \xff"}
		}, "checker", "it crashed �"},
		"unknown blame": {func(judge.Task) (*judge.Report, error) {
			return nil, &judge.Fault{Blame: "moon", Message: "m"}
		}, "host", "m"},
		"any other error": {func(judge.Task) (*judge.Report, error) { return nil, boom }, "host", "boom"},
		"a panic":         {func(judge.Task) (*judge.Report, error) { panic("ouch") }, "host", "the engine panicked; the worker's log has the stack: ouch"},
		"no verdict": {func(task judge.Task) (*judge.Report, error) {
			r := accepts(task)
			r.Verdict = ""
			return r, nil
		}, "host", `the engine's answer is unusable: the engine returned "", which is no verdict`},
		"SE as a verdict": {func(task judge.Task) (*judge.Report, error) {
			r := accepts(task)
			r.Verdict = verdict.SE
			return r, nil
		}, "host", `the engine's answer is unusable: the engine returned "SE", which is no verdict`},
		"AC without tests": {
			func(judge.Task) (*judge.Report, error) { return &judge.Report{Verdict: verdict.AC}, nil }, "host",
			"the engine's answer is unusable: the engine returned 0 tests for a package with 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				arb := arbitertest.New()
				digest := arb.AddPackage(t, "a", 1, 1)
				e := &engine{do: func(_ context.Context, task judge.Task, _ func(judge.Progress)) (*judge.Report, error) {
					if task.SourceName == "bad" {
						return tc.do(task)
					}
					return accepts(task), nil
				}}
				newRig(t, arb, e, nil).start()
				id := arb.Submit(digest, gavelapi.Lease{SourceName: "bad"})
				job := arb.AwaitState(t, time.Minute, id, "failed")
				if d := cmp.Diff(&gavelapi.Fault{Blame: tc.blame, Message: tc.message}, job.Report.Fault); d != "" || job.Report.Verdict != "" {
					t.Errorf("verdict %q, %s", job.Report.Verdict, d)
				}
				next := arb.Submit(digest, gavelapi.Lease{})
				arb.AwaitState(t, time.Minute, next, "done")
			})
		})
	}
}

// The engine finishes in the moment in which its lease dies: too late is late.
func TestVerdictOfALostLeaseIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		digest := arb.AddPackage(t, "a", 1, 1)
		e := &engine{do: func(ctx context.Context, task judge.Task, _ func(judge.Progress)) (*judge.Report, error) {
			if task.SourceName == "late" {
				<-ctx.Done()
			}
			return accepts(task), nil
		}}
		r := newRig(t, arb, e, nil).start()
		id := arb.Submit(digest, gavelapi.Lease{SourceName: "late"})
		arb.Await(t, time.Minute, "a run", func() bool { return e.calls() == 1 })
		arb.Cancel(id)
		next := arb.Submit(digest, gavelapi.Lease{})
		arb.AwaitState(t, time.Minute, next, "done")
		if job := arb.Job(id); job.Attempts[0].Late != 0 || arb.Count("result") != 1 {
			t.Errorf("the lost lease's work was reported: %+v", job)
		}
		if r.logs.count("its work is dropped") != 1 {
			t.Error("the log does not say that the work was dropped")
		}
	})
}

// Finished is finished: a stop in the last moment does not give it back.
func TestVerdictThatIsThereWhenTheStopComesIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		digest := arb.AddPackage(t, "a", 1, 1)
		e := &engine{do: func(ctx context.Context, task judge.Task, _ func(judge.Progress)) (*judge.Report, error) {
			<-ctx.Done()
			return accepts(task), nil
		}}
		r := newRig(t, arb, e, nil).start()
		id := arb.Submit(digest, gavelapi.Lease{})
		arb.Await(t, time.Minute, "a run", func() bool { return e.calls() == 1 })
		if _, err := r.stop(); err != nil {
			t.Error(err)
		}
		if job := arb.Job(id); job.State != "done" || arb.Count("release") != 0 {
			t.Errorf("job %+v", job)
		}
	})
}
