package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/verdict"
	"github.com/gavel-oj/gavel/internal/worker/arbitertest"
)

// verifier is a judge.Verifier made of a function.
type verifier func(ctx context.Context, t judge.VerifyTask, progress func(judge.Progress)) (*judge.VerifyReport, error)

func (v verifier) Verify(ctx context.Context, t judge.VerifyTask, progress func(judge.Progress)) (*judge.VerifyReport, error) {
	return v(ctx, t, progress)
}

func prepareLease(step, path string) gavelapi.Lease {
	return gavelapi.Lease{Kind: "prepare", Language: "cpp17", Prepare: &gavelapi.LeasePrepare{Step: step, Path: path}}
}

func TestAStepOfPreparingIsDoneAndReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		var asked judge.VerifyTask
		newRig(t, arb, takes(time.Second), func(c *Config) {
			c.Verifier = verifier(func(_ context.Context, t judge.VerifyTask, progress func(judge.Progress)) (*judge.VerifyReport, error) {
				asked = t
				progress(judge.Progress{Phase: judge.PhaseRunning, TestsDone: 1, TestsTotal: len(t.Package.Manifest.Tests)})
				return &judge.VerifyReport{
					Verdict: verdict.WA, Judged: &judge.Report{Verdict: verdict.WA, Toolchain: "g++ 12", Tests: []judge.Test{{Name: "1", Verdict: verdict.WA, CPU: time.Second}}},
					Findings: []judge.Finding{{Step: "submission", What: t.Path, Detail: "on test 1", Took: 2 * time.Second}},
				}, nil
			})
		}).start()
		id := arb.Submit(arb.AddPackage(t, "p", 3, 64), prepareLease("submission", "submissions/a.cpp"))
		r := arb.AwaitState(t, time.Minute, id, "done").Report
		want := gavelapi.Finding{Step: "submission", What: "submissions/a.cpp", Outcome: "ok", Detail: "on test 1", TookUS: 2e6}
		if r.Prepare == nil || r.Verdict != "" || r.Prepare.Verdict != "WA" || len(r.Prepare.Findings) != 1 || r.Prepare.Findings[0] != want ||
			r.CPUUS != 1e6 || len(r.Tests) != 0 || r.Provenance.Toolchain != "g++ 12" {
			t.Fatalf("%+v %+v", r, r.Prepare)
		}
		if asked.Step != judge.VerifySubmission || asked.Language != "cpp17" || asked.Package == nil {
			t.Errorf("%+v", asked)
		}
	})
}

func TestWhatIsWrongWithAPackageIsAFindingAndNoFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		newRig(t, arb, takes(time.Second), func(c *Config) {
			c.Verifier = verifier(func(_ context.Context, t judge.VerifyTask, _ func(judge.Progress)) (*judge.VerifyReport, error) {
				if t.Step == judge.VerifyValidator {
					return nil, &judge.Fault{Blame: judge.BlameHost, Message: "no disk"}
				}
				return &judge.VerifyReport{Findings: []judge.Finding{{Step: "build", What: "checker", Failed: true, Detail: "does not compile"}}}, nil
			})
		}).start()
		digest := arb.AddPackage(t, "p", 1, 64)
		wrong, broken := arb.Submit(digest, prepareLease("checker", "")), arb.Submit(digest, prepareLease("validator", "v.py"))
		if r := arb.AwaitState(t, time.Minute, wrong, "done").Report; r.Fault != nil || r.Prepare.Findings[0].Outcome != "failed" {
			t.Errorf("%+v", r)
		}
		if r := arb.AwaitState(t, time.Minute, broken, "failed").Report; r.Fault == nil || r.Fault.Blame != "host" || r.Prepare != nil {
			t.Errorf("%+v", r)
		}
	})
}

func TestAWorkerThatDoesNotPrepareSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		newRig(t, arb, takes(time.Second), nil).start()
		id := arb.Submit(arb.AddPackage(t, "p", 1, 64), prepareLease("checker", ""))
		if r := arb.AwaitState(t, time.Minute, id, "failed").Report; r.Fault == nil || r.Fault.Blame != "host" {
			t.Errorf("%+v", r)
		}
	})
}
