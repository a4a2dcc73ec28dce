package judge_test

import (
	"archive/tar"
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/verdict"
)

// hold is a compile step of one language that would never end by itself, beside
// ordinary ones of others.
type hold struct {
	begun   chan struct{} // gets a value when it begins
	release chan struct{} // closed: it may end
	times   atomic.Int64
}

func newHold() *hold { return &hold{begun: make(chan struct{}, 64), release: make(chan struct{})} }

func (h *hold) run(ctx context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
	h.times.Add(1)
	h.begun <- struct{}{}
	select {
	case <-ctx.Done():
		return sandbox.Result{}, context.Cause(ctx)
	case <-h.release:
		return wellBehaved(spec)
	}
}

// accepted judges a submission in C++ and wants AC.
func accepted(t *testing.T, e *judge.Engine) {
	t.Helper()
	report, err := e.Judge(t.Context(), newTask(newPackage(t, "1\n", "1\n"), "cpp17", "int main(){}"), quiet)
	if err != nil || report.Verdict != verdict.AC {
		t.Fatalf("the submission: %+v, %v", report, err)
	}
}

// One slot, held by a self-test that would never end by itself: however many
// submissions come, none waits for it, and it is begun again afterwards.
func TestNoSubmissionWaitsForASelfTest(t *testing.T) {
	c, _ := builtin(t).Get("c")
	h := newHold()
	p := &fakeProvider{compile: func(ctx context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
		if spec.Argv[0] == c.Compile.Argv[0] {
			return h.run(ctx, spec)
		}
		return wellBehaved(spec)
	}}
	e := newEngine(t, p, 1)
	tested := make(chan []judge.Offer, 1)
	go func() {
		offers, err := e.SelfTestOf(t.Context(), []*language.Language{c})
		if err != nil {
			t.Error(err)
		}
		tested <- offers
	}()
	const submissions = 12
	for range submissions {
		<-h.begun
		accepted(t, e)
	}
	<-h.begun
	close(h.release)
	if offers := <-tested; len(offers) != 1 {
		t.Errorf("offers %+v", offers)
	}
	if n := h.times.Load(); n != submissions+1 {
		t.Errorf("the self-test began %d times, want %d", n, submissions+1)
	}
}

// A machine that is never idle must prove its languages, too: after half a
// minute one step is done to its end, and only one.
func TestAfterALongTimeOneStepIsDoneToItsEnd(t *testing.T) {
	c, _ := builtin(t).Get("c")
	h := newHold()
	p := &fakeProvider{compile: func(ctx context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
		if spec.Argv[0] == c.Compile.Argv[0] {
			return h.run(ctx, spec)
		}
		return wellBehaved(spec)
	}}
	clk := &laterClock{}
	e := newEngineWith(t, judge.Config{Provider: p, Slots: 1, Clock: clk})
	tested := make(chan struct{})
	go func() {
		defer close(tested)
		if _, err := e.SelfTestOf(t.Context(), []*language.Language{c}); err != nil {
			t.Error(err)
		}
	}()
	<-h.begun
	clk.ahead.Store(int64(31 * time.Second))
	accepted(t, e) // it still had to give way
	<-h.begun      // and now has not
	done := make(chan error, 1)
	go func() {
		_, err := e.Judge(t.Context(), newTask(newPackage(t, "1\n", "1\n"), "cpp17", "int main(){}"), quiet)
		done <- err
	}()
	close(h.release)
	<-tested
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := h.times.Load(); n != 2 {
		t.Errorf("the self-test began %d times, want 2", n)
	}
}

const withSteps = "prepare: {argv: [/usr/bin/prepare], steps: [[one], [two], [three]], LIMITS}\n"

// stepping plays a compile box whose prepare steps each leave a file of their
// name and one that all leave.
type stepping struct {
	t  *testing.T
	mu sync.Mutex
	// before is called before a step leaves anything; its error is the step's.
	before func(ctx context.Context, word string) error
	steps  []string
	seen   []map[string]string
}

func (s *stepping) run(ctx context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
	if spec.Argv[0] != "/usr/bin/prepare" {
		return wellBehaved(spec)
	}
	word := spec.Argv[1]
	s.mu.Lock()
	s.steps, s.seen = append(s.steps, word), append(s.seen, seen(s.t, spec))
	before := s.before
	s.mu.Unlock()
	if before != nil {
		if err := before(ctx, word); err != nil {
			return sandbox.Result{}, err
		}
	}
	return sandbox.Result{Files: map[string]sandbox.File{language.PreparedTar: tarOf(s.t,
		tar.Header{Name: "dir/", Typeflag: tar.TypeDir, Mode: 0o755},
		tar.Header{Name: "dir/" + word, Typeflag: tar.TypeReg, Mode: 0o644}, tar.Header{Name: "same", Typeflag: tar.TypeReg, Mode: 0o644})}}, nil
}

func TestStepsOfPreparationBuildOnEachOther(t *testing.T) {
	t.Parallel()
	s := &stepping{t: t}
	p := &fakeProvider{compile: s.run}
	scratch := filepath.Join(t.TempDir(), "scratch")
	e := newEngineWith(t, judge.Config{Provider: p, Slots: 1, Languages: fakeLanguage(t, withSteps), ScratchDir: scratch})
	if r, err := e.Judge(t.Context(), newTask(newPackage(t, "1", "1"), "x", "source"), quiet); err != nil || r.Verdict != verdict.AC {
		t.Fatalf("%+v, %v", r, err)
	}
	want := []map[string]string{{}, {"/box/prepared/1": "dir same "}, {"/box/prepared/1": "dir same ", "/box/prepared/2": "dir same "}}
	if diff := cmp.Diff(want, s.seen); diff != "" {
		t.Error(diff)
	}
	whole, err := filepath.Glob(filepath.Join(scratch, "toolchains/x/prepared-*/dir/*"))
	if err != nil || len(whole) != 3 {
		t.Errorf("joined: %q, %v", whole, err)
	}
	if left, _ := filepath.Glob(filepath.Join(scratch, "toolchains/x/preparing-*")); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
}

// Preparation takes long, and a submission comes in the middle of each step:
// none waits, and each step is begun once more and no step that was whole.
func TestPreparationGoesOnWhereItGaveWay(t *testing.T) {
	x, err := language.Load(fstest.MapFS{"x.yaml": {Data: []byte(fakeText("x", withSteps))}, "y.yaml": {Data: []byte(fakeText("y", ""))}})
	if err != nil {
		t.Fatal(err)
	}
	lang, _ := x.Get("x")
	interrupted := map[string]bool{}
	begun := make(chan string)
	s := &stepping{t: t, before: func(ctx context.Context, word string) error {
		if interrupted[word] {
			return nil
		}
		interrupted[word] = true
		begun <- word
		<-ctx.Done()
		return context.Cause(ctx)
	}}
	p := &fakeProvider{compile: s.run}
	e := newEngineWith(t, judge.Config{Provider: p, Slots: 1, Languages: x})
	tested := make(chan struct{})
	go func() {
		defer close(tested)
		if offers, err := e.SelfTestOf(t.Context(), []*language.Language{lang}); err != nil || len(offers) != 1 || offers[0].Reason != "" && !offers[0].OK {
			t.Errorf("%+v, %v", offers, err)
		}
	}()
	for range 3 {
		<-begun
		if r, err := e.Judge(t.Context(), newTask(newPackage(t, "1", "1"), "y", "source"), quiet); err != nil || r.Verdict != verdict.AC {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	<-tested
	want := []string{"one", "one", "two", "two", "three", "three"}
	if diff := cmp.Diff(want, s.steps); diff != "" {
		t.Error(diff)
	}
}

// A worker that is stopped in the middle goes on from the last whole step.
func TestPreparationGoesOnInTheNextEngine(t *testing.T) {
	t.Parallel()
	scratch := filepath.Join(t.TempDir(), "scratch")
	x := fakeLanguage(t, withSteps)
	stopAt := "two"
	s := &stepping{t: t}
	for i := range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		s.before = func(ctx context.Context, word string) error {
			if word == stopAt {
				cancel()
				return context.Cause(ctx)
			}
			return nil
		}
		e, err := judge.New(judge.Config{Provider: &fakeProvider{compile: s.run}, Slots: 1, Languages: x, ScratchDir: scratch})
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.Judge(ctx, newTask(newPackage(t, "1", "1"), "x", "source"), quiet)
		if (err == nil) != (i == 1) {
			t.Errorf("engine %d: %v", i, err)
		}
		cancel()
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		stopAt = ""
	}
	if diff := cmp.Diff([]string{"one", "two", "two", "three"}, s.steps); diff != "" {
		t.Error(diff)
	}
}

// A step that fails leaves nothing to build on.
func TestFailedStepIsForgottenWithTheOthers(t *testing.T) {
	t.Parallel()
	s := &stepping{t: t, before: func(_ context.Context, word string) error {
		if word == "two" {
			return fmt.Errorf("odd")
		}
		return nil
	}}
	e := newEngineWith(t, judge.Config{Provider: &fakeProvider{compile: s.run}, Slots: 1, Languages: fakeLanguage(t, withSteps)})
	for range 2 {
		if _, err := e.Judge(t.Context(), newTask(newPackage(t, "1", "1"), "x", "source"), quiet); err == nil {
			t.Fatal("judged")
		}
	}
	if diff := cmp.Diff([]string{"one", "two", "one", "two"}, s.steps); diff != "" {
		t.Error(diff)
	}
}
