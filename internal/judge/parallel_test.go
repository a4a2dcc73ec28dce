package judge_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/verdict"
)

// stage is a fakeProvider whose runs wait for their cue. A test's input is one
// line with what is to become of it.
type stage struct {
	fakeProvider

	mu       sync.Mutex
	waiting  []*actor // in the order of their entrance
	most     int      // at once
	memory   int64    // limits of all that run now
	maxBytes int64
	begun    map[string]int
	ended    map[string]int // given back or superfluous
}

type actor struct {
	name, part string
	cue        chan struct{}
	ctx        context.Context //nolint:containedctx // to see why it ended
}

func newStage() *stage {
	s := &stage{begun: map[string]int{}, ended: map[string]int{}}
	s.compile = func(_ context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
		s.count(spec, 1)
		defer s.count(spec, -1)
		return wellBehaved(spec)
	}
	s.run = s.play
	return s
}

func (s *stage) count(spec *sandbox.Spec, sign int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory += sign * spec.Limits.MemoryBytes
	s.maxBytes = max(s.maxBytes, s.memory)
}

// play acts: "name AC", "name RE", "name fault".
func (s *stage) play(ctx context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
	line, err := io.ReadAll(spec.Stdin)
	if err != nil {
		return sandbox.Result{}, err
	}
	a := &actor{cue: make(chan struct{}), ctx: ctx}
	a.name, a.part, _ = strings.Cut(string(line), " ")
	s.count(spec, 1)
	defer s.count(spec, -1)
	s.mu.Lock()
	s.begun[a.name]++
	s.waiting = append(s.waiting, a)
	s.most = max(s.most, len(s.waiting))
	s.mu.Unlock()
	select {
	case <-a.cue:
	case <-ctx.Done():
		s.leave(a)
		s.mu.Lock()
		s.ended[a.name]++
		s.mu.Unlock()
		return sandbox.Result{}, context.Cause(ctx)
	}
	return act(a.name, a.part, spec)
}

func act(name, part string, spec *sandbox.Spec) (res sandbox.Result, err error) {
	res.CPU = time.Duration(len(name)) * time.Millisecond
	switch part {
	case "AC":
		res.StdoutBytes = 2
		_, err = io.WriteString(spec.Stdout, "AC")
	case "RE":
		res.ExitCode = 1
	case "fault":
		return res, &sandbox.Fault{Op: "supervise", Err: errors.New("gone on " + name)}
	default: // WA
		_, err = io.WriteString(spec.Stdout, name)
	}
	return res, err
}

func (s *stage) leave(a *actor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = slices.DeleteFunc(s.waiting, func(other *actor) bool { return other == a })
}

// cue lets the i-th of those on stage (mod their number) end, and waits until
// nothing moves. It reports whether there was one.
func (s *stage) cue(i int) bool {
	s.mu.Lock()
	if len(s.waiting) == 0 {
		s.mu.Unlock()
		return false
	}
	a := s.waiting[i%len(s.waiting)]
	s.mu.Unlock()
	s.leave(a)
	close(a.cue)
	synctest.Wait()
	return true
}

// onStage names those who wait for their cue.
func (s *stage) onStage() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.waiting {
		names = append(names, a.name)
	}
	slices.Sort(names)
	return names
}

// cueName is cue by name.
func (s *stage) cueName(t *testing.T, name string) {
	t.Helper()
	s.mu.Lock()
	i := slices.IndexFunc(s.waiting, func(a *actor) bool { return a.name == name })
	s.mu.Unlock()
	if i < 0 {
		t.Fatalf("%s is not on stage", name)
	}
	s.cue(i)
}

// parts makes a package of parts; the answer to each test is AC.
func parts(t testing.TB, prefix string, parts ...string) *problem.Package {
	t.Helper()
	var pairs []string
	for i, p := range parts {
		pairs = append(pairs, fmt.Sprintf("%s%d %s", prefix, i+1, p), "AC")
	}
	return newPackage(t, pairs...)
}

func manyCPUs(n int) (cpus []sandbox.CPU) {
	for i := range n {
		cpus = append(cpus, sandbox.CPU{ID: i})
	}
	return cpus
}

// outcome is what must not depend on the order in which tests finish.
type outcome struct {
	Verdict verdict.Verdict
	Tests   []judge.Test
	Err     string
}

func outcomeOf(r *judge.Report, err error) outcome {
	if err != nil {
		return outcome{Err: err.Error()}
	}
	return outcome{Verdict: r.Verdict, Tests: r.Tests}
}

// bubble is synctest.Test for an engine: its scratch directory outlives it.
func bubble(t *testing.T, cfg judge.Config, play func(t *testing.T, e *judge.Engine)) {
	t.Helper()
	cfg.Languages, cfg.ScratchDir = builtin(t), filepath.Join(t.TempDir(), "scratch")
	synctest.Test(t, func(t *testing.T) {
		e, err := judge.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		play(t, e)
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	if left, _ := os.ReadDir(filepath.Join(cfg.ScratchDir, "tasks")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestResultsDoNotDependOnTheOrderOfFinishing judges several submissions at
// once on some cores, ends their tests in a random order, and wants of each
// what it gets alone on one core.
func TestResultsDoNotDependOnTheOrderOfFinishing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		part := rapid.SampledFrom([]string{"AC", "AC", "AC", "AC", "AC", "AC", "WA", "RE", "fault"})
		submissions := rapid.SliceOfN(rapid.SliceOfN(part, 1, 9), 1, 4).Draw(rt, "submissions")
		stop := rapid.SampledFrom([]judge.StopRule{judge.StopFirst, judge.StopAll}).Draw(rt, "stop")
		slots, cpus := rapid.IntRange(1, 4).Draw(rt, "slots"), rapid.IntRange(1, 6).Draw(rt, "cpus")
		seed := rapid.Uint64().Draw(rt, "seed")
		order := rand.New(rand.NewPCG(seed, 1))

		var tasks []judge.Task
		for i, p := range submissions {
			task := newTask(parts(t, string(rune('a'+i)), p...), "c", "")
			task.Stop = stop
			tasks = append(tasks, task)
		}
		alone := make([]outcome, len(tasks))
		bubble(t, judge.Config{Provider: newEager(), Slots: 1}, func(t *testing.T, e *judge.Engine) {
			for i, task := range tasks {
				alone[i] = outcomeOf(e.Judge(t.Context(), task, quiet))
			}
		})
		together := make([]outcome, len(tasks))
		s := newStage()
		failure := ""
		bubble(t, judge.Config{Provider: s, Slots: slots, CPUs: manyCPUs(cpus), MemoryBudget: 2 << 30}, func(t *testing.T, e *judge.Engine) {
			started := 0
			var wg sync.WaitGroup
			for {
				if started < len(tasks) && (order.IntN(4) == 0 || len(s.onStage()) == 0) {
					i, done := started, 0
					started++
					wg.Go(func() {
						together[i] = outcomeOf(e.Judge(t.Context(), tasks[i], func(p judge.Progress) {
							if p.TestsDone < done || p.TestsDone > p.TestsTotal {
								failure = fmt.Sprintf("progress went from %d to %d of %d", done, p.TestsDone, p.TestsTotal)
							}
							done = p.TestsDone
						}))
					})
					synctest.Wait()
					continue
				}
				if !s.cue(order.IntN(1 << 20)) {
					break
				}
			}
			wg.Wait()
		})
		if diff := cmp.Diff(alone, together); diff != "" {
			rt.Fatalf("alone, and together: %s", diff)
		}
		if s.most > max(slots, cpus) {
			rt.Fatalf("%d tests at once on %d cores", s.most, max(slots, cpus))
		}
		if failure != "" {
			rt.Fatal(failure)
		}
	})
}

// newEager is a stage where nobody waits for a cue.
func newEager() *stage {
	s := newStage()
	s.run = func(_ context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
		line, err := io.ReadAll(spec.Stdin)
		if err != nil {
			return sandbox.Result{}, err
		}
		name, part, _ := strings.Cut(string(line), " ")
		return act(name, part, spec)
	}
	return s
}

// judging is one Judge in the background.
type judging struct {
	out  outcome
	done bool
}

func begin(t *testing.T, e *judge.Engine, task judge.Task) *judging {
	j := &judging{}
	go func() {
		j.out = outcomeOf(e.Judge(t.Context(), task, quiet))
		j.done = true
	}()
	synctest.Wait()
	return j
}

func (s *stage) wantOnStage(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, s.onStage()); diff != "" {
		t.Errorf("on stage: %s", diff)
	}
}

// end cues everybody, the first first, until nobody is left.
func (s *stage) end() {
	for s.cue(0) {
	}
}

func (j *judging) want(t *testing.T, verdicts ...verdict.Verdict) {
	t.Helper()
	var got []verdict.Verdict
	for _, test := range j.out.Tests {
		got = append(got, test.Verdict)
	}
	if diff := cmp.Diff(verdicts, got); diff != "" || !j.done {
		t.Errorf("done %t, error %q, tests %s", j.done, j.out.Err, diff)
	}
}

func TestIdleCoresAreBorrowedAndGivenBackAtOnce(t *testing.T) {
	t.Parallel()
	s := newStage()
	a := newTask(parts(t, "a", "AC", "AC", "AC", "AC", "AC"), "c", "")
	b := newTask(parts(t, "b", "AC", "AC"), "c", "")
	bubble(t, judge.Config{Provider: s, Slots: 2, CPUs: manyCPUs(4), MemoryBudget: 4 << 30}, func(t *testing.T, e *judge.Engine) {
		first := begin(t, e, a)
		s.wantOnStage(t, "a1", "a2", "a3", "a4")
		// Nobody cued a test: the second submission gets its core because the
		// newest borrowed one is called back.
		second := begin(t, e, b)
		s.wantOnStage(t, "a1", "a2", "a3", "b1")
		if s.ended["a4"] != 1 {
			t.Errorf("a4 was ended %d times, want once", s.ended["a4"])
		}
		s.cueName(t, "a2") // its core goes to who borrows least
		s.wantOnStage(t, "a1", "a3", "b1", "b2")
		s.cueName(t, "a1") // the test called back is the first on a's own core
		s.wantOnStage(t, "a3", "a4", "b1", "b2")
		s.end()
		first.want(t, "AC", "AC", "AC", "AC", "AC")
		second.want(t, "AC", "AC")
	})
	if s.begun["a4"] != 2 || s.begun["a5"] != 1 {
		t.Errorf("runs: %v", s.begun)
	}
}

func TestFirstFailingTestEndsWhatIsBehindIt(t *testing.T) {
	t.Parallel()
	s := newStage()
	task := newTask(parts(t, "a", "AC", "WA", "RE", "AC", "AC", "AC"), "c", "")
	bubble(t, judge.Config{Provider: s, Slots: 1, CPUs: manyCPUs(4)}, func(t *testing.T, e *judge.Engine) {
		j := begin(t, e, task)
		s.wantOnStage(t, "a1", "a2", "a3", "a4")
		s.cueName(t, "a3") // it fails: a4 ends, nothing new begins, the two before go on
		s.wantOnStage(t, "a1", "a2")
		s.cueName(t, "a2") // it fails
		s.wantOnStage(t, "a1")
		s.end()
		j.want(t, "AC", "WA", "skipped", "skipped", "skipped", "skipped")
		if j.out.Verdict != verdict.WA {
			t.Errorf("verdict %s", j.out.Verdict)
		}
	})
	if s.begun["a5"]+s.begun["a6"] > 0 {
		t.Errorf("begun: %v", s.begun)
	}
}

func TestFaultBehindAFailingTestIsNobodysBusiness(t *testing.T) {
	t.Parallel()
	s := newStage()
	task := newTask(parts(t, "a", "AC", "WA", "fault"), "c", "")
	bubble(t, judge.Config{Provider: s, Slots: 1, CPUs: manyCPUs(4)}, func(t *testing.T, e *judge.Engine) {
		j := begin(t, e, task)
		s.cueName(t, "a3")
		s.end()
		j.want(t, "AC", "WA", "skipped")
	})
}

func TestWithoutCPUsTestsRunOneByOne(t *testing.T) {
	t.Parallel()
	s := newStage()
	bubble(t, judge.Config{Provider: s, Slots: 1}, func(t *testing.T, e *judge.Engine) {
		j := begin(t, e, newTask(parts(t, "a", "AC", "AC"), "c", ""))
		s.wantOnStage(t, "a1")
		s.end()
		j.want(t, "AC", "AC")
	})
}

func TestHyperThreadsAreNotCores(t *testing.T) {
	t.Parallel()
	cpus := []sandbox.CPU{{ID: 0}, {ID: 1, Sibling: true}, {ID: 2}, {ID: 3, Sibling: true}}
	for _, c := range []struct{ slots, atOnce int }{{1, 2}, {2, 2}, {3, 3}, {6, 6}} {
		p := &pinnable{fakeProvider: &newStage().fakeProvider}
		s := newStage()
		p.fakeProvider.run = s.play
		bubble(t, judge.Config{Provider: p, Slots: c.slots, CPUs: cpus}, func(t *testing.T, e *judge.Engine) {
			begin(t, e, newTask(parts(t, "a", "AC", "AC", "AC", "AC", "AC", "AC", "AC"), "c", ""))
			s.end()
		})
		if s.most != c.atOnce {
			t.Errorf("%d slots: %d at once, want %d", c.slots, s.most, c.atOnce)
		}
		if c.slots <= 2 && p.cpus[1]+p.cpus[3] > 0 {
			t.Errorf("%d slots: boxes by CPU %v", c.slots, p.cpus)
		}
	}
}

// TestMemoryOfAllBoxesStaysWithinTheBudget has room for one compile step, or
// for sixteen tests.
func TestMemoryOfAllBoxesStaysWithinTheBudget(t *testing.T) {
	t.Parallel()
	const budget = 1 << 30
	s := newStage()
	bubble(t, judge.Config{Provider: s, Slots: 3, CPUs: manyCPUs(30), MemoryBudget: budget}, func(t *testing.T, e *judge.Engine) {
		var all []*judging
		for i := range 3 {
			p := slices.Repeat([]string{"AC"}, 20)
			all = append(all, begin(t, e, newTask(parts(t, string(rune('a'+i)), p...), "c", "")))
		}
		if n := len(s.onStage()); n != 16 {
			t.Errorf("%d tests at once, want 16", n)
		}
		s.end()
		for _, j := range all {
			j.want(t, slices.Repeat([]verdict.Verdict{verdict.AC}, 20)...)
		}
	})
	if s.maxBytes > budget || s.maxBytes < budget-64<<20 {
		t.Errorf("at most %d MiB at once, want up to %d", s.maxBytes>>20, budget>>20)
	}
}

func TestTaskLargerThanTheMemoryBudgetIsAHostsFault(t *testing.T) {
	t.Parallel()
	for budget, says := range map[int64]string{
		32 << 20:  "cannot give a program 64 MiB of memory",   // the tests
		512 << 20: "cannot give a program 1024 MiB of memory", // the compiler
	} {
		e := newEngineWith(t, judge.Config{Provider: &fakeProvider{}, Slots: 1, MemoryBudget: budget})
		_, err := e.Judge(t.Context(), newTask(newPackage(t, "1", "1"), "c", ""), quiet)
		if f := wantFault(t, err, judge.BlameHost); !strings.Contains(f.Error(), says) {
			t.Errorf("%v does not say %q", f, says)
		}
	}
}

func TestCancellationEndsEveryCore(t *testing.T) {
	t.Parallel()
	s := newStage()
	lost := errors.New("lease lost")
	bubble(t, judge.Config{Provider: s, Slots: 1, CPUs: manyCPUs(4)}, func(t *testing.T, e *judge.Engine) {
		ctx, cancel := context.WithCancelCause(t.Context())
		var err error
		go func() { _, err = e.Judge(ctx, newTask(parts(t, "a", "AC", "AC", "AC", "AC", "AC"), "c", ""), quiet) }()
		synctest.Wait()
		s.cue(2)
		cancel(lost)
		synctest.Wait()
		s.wantOnStage(t)
		if !errors.Is(err, lost) {
			t.Errorf("error %v, want the cause", err)
		}
		j := begin(t, e, newTask(parts(t, "b", "AC", "AC"), "c", ""))
		s.wantOnStage(t, "b1", "b2")
		s.end()
		j.want(t, "AC", "AC")
	})
}
