package drill

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/internal/testkit"
	"github.com/gavel-oj/gavel/internal/timeline"
)

// replayOptions are quick, and generous: a machine may be two seconds late at
// any moment, which is 200 seconds of the incident. What must be seen is
// minutes.
func replayOptions(t *testing.T) ReplayOptions {
	t.Helper()
	return ReplayOptions{Factor: 100, Slack: 2 * time.Second, Options: options(t)}
}

func replay(t *testing.T, name string, o ReplayOptions) (timeline.Replay, string) {
	t.Helper()
	s, ok := FindStory(name)
	if !ok {
		t.Fatalf("there is no story %s", name)
	}
	r, verdict := Replay(t.Context(), s, o)
	var text strings.Builder
	if err := errors.Join(r.WriteText(&text), r.WriteTable(&text)); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + text.String())
	if verdict == Skipped {
		testkit.Missing(t, testkit.PG, "%s", strings.Join(r.Why, "; "))
	}
	if left := leftovers(o.Dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	return r, verdict
}

// Both incidents, on real processes: the old way is held up as it was then,
// the new ways are not.
func TestTheIncidentsAreReplayed(t *testing.T) {
	for _, s := range Stories() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel() // they wait for most of their time
			r, verdict := replay(t, s.Name, replayOptions(t))
			if verdict != OK {
				t.Errorf("%s: %q", verdict, r.Why)
			}
			old, ok := r.Way(timeline.Old)
			if !ok {
				t.Fatal("the old way is missing")
			}
			for _, name := range []string{timeline.Edge, timeline.Arbiter} {
				if w, ok := r.Way(name); !ok || 2*w.Waited() > old.Waited() {
					t.Errorf("%s is no better than the old way", name)
				}
			}
		})
	}
}

// Counter-tests: a model in which nothing goes wrong is not faithful, and edge
// pull with what gavel left out holds others up. Both are said.
func TestAReplayThatCannotFailIsNoticed(t *testing.T) {
	for _, s := range Stories() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			o := replayOptions(t)
			o.Sabotage = true
			r, verdict := replay(t, s.Name, o)
			why := strings.Join(r.Why, "\n")
			if verdict != Failed || !Noticed(&r, s, o.Slack) ||
				!strings.Contains(why, "old: the model is not faithful") || !strings.Contains(why, "edge pull: a submission waited") {
				t.Errorf("%s: %s", verdict, why)
			}
		})
	}
}

// Ctrl-C ends a replay while somebody is frozen, and leaves nothing.
func TestAnInterruptedReplayLeavesNothing(t *testing.T) {
	o := replayOptions(t)
	ctx, interrupt := context.WithCancelCause(t.Context())
	defer interrupt(nil)
	var once sync.Once
	o.Note = func(text string) {
		if strings.Contains(text, "alarm") {
			once.Do(func() { interrupt(errors.New("interrupted")) })
		}
	}
	s, _ := FindStory("five-nights")
	r, verdict := Replay(ctx, s, o)
	if verdict != Interrupted || len(r.Ways) != 0 {
		t.Errorf("%s with %d ways: %q", verdict, len(r.Ways), r.Why)
	}
	if left := leftovers(o.Dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestStoriesAreWellFormed(t *testing.T) {
	for _, s := range Stories() {
		for _, way := range []string{timeline.Old, timeline.Fix, timeline.Edge, timeline.Arbiter} {
			if s.ways[way] == "" || s.expect[way].Way != way {
				t.Errorf("%s: %s has no description or no expectation", s.Name, way)
			}
		}
		last := s.submits[len(s.submits)-1]
		if s.What == "" || s.Sabotage == "" || s.begin == nil || last >= s.least || s.least >= s.most || s.repair >= s.most {
			t.Errorf("%s is not whole", s.Name)
		}
	}
}

// An idle limit of 0 ms would be none at all.
func TestACompressedTimeIsNeverNone(t *testing.T) {
	w := oldWorker{oldWorkerSettings: oldWorkerSettings{Factor: 200}}
	if got := w.ms(time.Millisecond); got != "1" {
		t.Errorf("an idle limit of %s ms", got)
	}
	if got := w.ms(idleLimit); got != "50" {
		t.Errorf("10 s are %s ms", got)
	}
}
