package worker

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/verdict"
	"github.com/gavel-oj/gavel/internal/worker/arbitertest"
)

// runner is a judge.Runner made of a function.
type runner func(ctx context.Context, t judge.RunTask, progress func(judge.Progress)) (*judge.RunReport, error)

func (r runner) Run(ctx context.Context, t judge.RunTask, progress func(judge.Progress)) (*judge.RunReport, error) {
	return r(ctx, t, progress)
}

// echoes gives each input back after d.
func echoes(d time.Duration) runner {
	return func(ctx context.Context, t judge.RunTask, progress func(judge.Progress)) (*judge.RunReport, error) {
		r := &judge.RunReport{Compile: judge.Compile{OK: true}, Toolchain: "g++ 12"}
		for i, in := range t.Inputs {
			progress(judge.Progress{Phase: judge.PhaseRunning, TestsDone: i, TestsTotal: len(t.Inputs)})
			if err := client.Sleep(ctx, d); err != nil {
				return nil, context.Cause(ctx)
			}
			r.Results = append(r.Results, judge.RunResult{Ended: verdict.ReasonExit, Stdout: in, Stderr: t.Source, StderrCut: true, CPU: time.Second})
		}
		return r, nil
	}
}

func runLease(inputs ...string) gavelapi.Lease {
	l := gavelapi.Lease{Language: "cpp17", Source: []byte("src"), Files: []gavelapi.LeaseFile{{Name: "x.h"}}, Run: &gavelapi.LeaseRun{RunID: 7}}
	for _, in := range inputs {
		l.Run.Inputs = append(l.Run.Inputs, []byte(in))
	}
	return l
}

func runs(do runner) func(*Config) { return func(c *Config) { c.Runner = do } }

func TestARunIsDoneAndReportedByteByByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		e := takes(time.Second)
		newRig(t, arb, e, runs(echoes(10*time.Second))).start()
		id := arb.Submit("", runLease("1", "\x00\xff"))
		job := arb.AwaitState(t, time.Minute, id, "done")
		r := job.Report
		if r.Run == nil || r.Verdict != "" || !r.Run.Compiled || len(r.Run.Results) != 2 || r.CPUUS != 1e6 || r.Provenance.Toolchain != "g++ 12" {
			t.Fatalf("%+v", r)
		}
		got := r.Run.Results[1]
		if !bytes.Equal(got.StdoutBase64, []byte{0, 255}) || got.StdoutCut || string(got.StderrBase64) != "src" || !got.StderrCut || got.Ended != "exit" {
			t.Errorf("%+v", got)
		}
		if e.calls() != 0 || arb.Count("package") != 0 {
			t.Error("a run was judged, or asked for a package")
		}
	})
}

func TestARunThatDoesNotCompileIsAResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		newRig(t, arb, takes(time.Second), runs(func(context.Context, judge.RunTask, func(judge.Progress)) (*judge.RunReport, error) {
			return &judge.RunReport{Compile: judge.Compile{Log: "no"}}, nil
		})).start()
		job := arb.AwaitState(t, time.Minute, arb.Submit("", runLease("1")), "done")
		if r := job.Report; r.Run == nil || r.Run.Compiled || r.Compile.Log != "no" || len(r.Run.Results) != 0 {
			t.Errorf("%+v", r)
		}
	})
}

func TestWhatGoesWrongWithRunsIsAFault(t *testing.T) {
	ok := &judge.RunReport{Compile: judge.Compile{OK: true}} // of one input, without a result
	for name, do := range map[string]runner{
		"fault": func(context.Context, judge.RunTask, func(judge.Progress)) (*judge.RunReport, error) {
			return nil, &judge.Fault{Blame: judge.BlameHost, Message: "x"}
		},
		"panic":         func(context.Context, judge.RunTask, func(judge.Progress)) (*judge.RunReport, error) { panic("x") },
		"missing input": func(context.Context, judge.RunTask, func(judge.Progress)) (*judge.RunReport, error) { return ok, nil },
		"hangs": func(ctx context.Context, _ judge.RunTask, _ func(judge.Progress)) (*judge.RunReport, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		},
		"no runner": nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				arb := arbitertest.New()
				newRig(t, arb, takes(time.Second), func(c *Config) {
					if do != nil {
						c.Runner = do
					}
				}).start()
				id := arb.Submit("", runLease("1"))
				arb.Await(t, 10*time.Minute, "an attempt ends without a result", func() bool {
					a := arb.Job(id).Attempts
					return len(a) > 0 && a[0].Outcome != "running"
				})
				a := arb.Job(id).Attempts[0]
				if a.Outcome != "failed" && !(name == "hangs" && a.Outcome == "expired") {
					t.Errorf("%+v", a)
				}
			})
		})
	}
}

// The lease's death kills the run.
func TestACancelledRunIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		ended := make(chan error, 1)
		newRig(t, arb, takes(time.Second), runs(func(ctx context.Context, _ judge.RunTask, _ func(judge.Progress)) (*judge.RunReport, error) {
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return nil, context.Cause(ctx)
		})).start()
		id := arb.Submit("", runLease("1"))
		arb.AwaitState(t, time.Minute, id, "leased")
		sleep(t, 2*time.Second)
		arb.Cancel(id)
		if err := <-ended; !errors.Is(err, errLost) {
			t.Errorf("ended by %v", err)
		}
	})
}
