package judge_test

import (
	"context"
	"sync"
	"testing"

	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/verdict"
)

// One slot, held by a self-test that would never end by itself: a submission
// must not wait for it, and the self-test is begun again afterwards. One that
// has given way often enough is no longer disturbed.
func TestASubmissionDoesNotWaitForASelfTest(t *testing.T) {
	c, _ := builtin(t).Get("c")
	var mu sync.Mutex
	holding := make(chan struct{}, 16) // a self-test's compiler has begun
	release := make(chan struct{})     // the last one may end
	selfTests := 0
	p := &fakeProvider{}
	p.compile = func(ctx context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
		if spec.Argv[0] != c.Compile.Argv[0] { // a submission's, which is in another language
			return wellBehaved(spec)
		}
		mu.Lock()
		selfTests++
		mu.Unlock()
		holding <- struct{}{}
		select {
		case <-ctx.Done():
			return sandbox.Result{}, context.Cause(ctx)
		case <-release:
			return wellBehaved(spec)
		}
	}
	e := newEngine(t, p, 1)
	tested := make(chan []judge.Offer, 1)
	go func() {
		offers, err := e.SelfTestOf(t.Context(), []*language.Language{c})
		if err != nil {
			t.Error(err)
		}
		tested <- offers
	}()
	for range 3 {
		<-holding
		report, err := e.Judge(t.Context(), newTask(newPackage(t, "1\n", "1\n"), "cpp17", "int main(){}"), quiet)
		if err != nil || report.Verdict != verdict.AC {
			t.Fatalf("the submission behind a self-test: %+v, %v", report, err)
		}
	}
	<-holding // for the fourth time, and this time to the end
	done := make(chan error, 1)
	go func() {
		_, err := e.Judge(t.Context(), newTask(newPackage(t, "1\n", "1\n"), "cpp17", "int main(){}"), quiet)
		done <- err
	}()
	close(release)
	if offers := <-tested; len(offers) != 1 {
		t.Errorf("offers %+v", offers)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if selfTests != 4 {
		t.Errorf("the self-test began %d times, want 4", selfTests)
	}
}
