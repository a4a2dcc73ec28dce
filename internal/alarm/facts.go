package alarm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gavel-oj/gavel/internal/dispatch"
)

// Facts are what one look saw.
type Facts struct {
	// LoopedAt is when the dispatch loop last came round.
	LoopedAt time.Time
	// Board is what waits and who is there; nil when it could not be looked at.
	Board *Board
	// Oldest is the oldest waiting work of each lane, without what operators
	// hold; nil when it could not be read.
	Oldest []Oldest
	Events []Event // since the last look
}

// Board is what the leader's memory says.
type Board struct {
	dispatch.Survey

	// Grants counts the grants of this term: while it stands still nobody
	// was given anything.
	Grants int64
	// Asleep are the workers whose absence is planned.
	Asleep []Sleeper
	// Known counts the workers that are enrolled, online or not.
	Known int
	// Elsewhere says that others are at work whom the leader's memory does not
	// see: workers straight on the database.
	Elsewhere bool
	Aside     []Aside
}

// Sleeper is a worker whose absence is planned. Nil languages are not known,
// and may be any.
type Sleeper struct {
	Name      string
	Languages []string
}

// Aside is a worker, or one language on it, that gets nothing but probes.
type Aside struct {
	Worker, Language string
	Since            time.Time
	Reason           string
	Evidence         []string // one line a fault
}

// Oldest is the oldest waiting work of a lane.
type Oldest struct {
	Lane  string
	Jobs  int64
	JobID int64
	Age   time.Duration // by the database's clock
}

// Event is something that happened, and is not a state.
type Event struct {
	Kind    Kind
	Summary string
	Details map[string]any
}

// Condition is something that holds at a look.
type Condition struct {
	Kind    Kind
	Subject string // what of the kind, e.g. a lane; "" when there is only one
	// Identity is what it is about in detail. When it changes, the time for
	// which the condition must hold begins anew.
	Identity string
	Since    time.Time // when it began, when that is known
	Summary  string
	Evidence map[string]any
	Count    int64 // of an event: how many came
}

// Conditions says what holds, and of which kinds nothing was seen.
func Conditions(f Facts, s Settings, now time.Time) (holds []Condition, unseen []Kind) {
	if away := now.Sub(f.LoopedAt); away > s.Stuck {
		holds = append(holds, Condition{
			Kind: DispatchStuck, Since: f.LoopedAt,
			Summary:  fmt.Sprintf("the dispatch loop has not come round for %d s", int(away.Seconds())),
			Evidence: map[string]any{"last_round": f.LoopedAt.UTC(), "memory_locked": f.Board == nil},
		})
	}
	if f.Oldest == nil {
		unseen = append(unseen, OldestWaiting)
	}
	for _, o := range f.Oldest {
		limit := s.Waiting
		if o.Lane == dispatch.Prepare.String() || o.Lane == dispatch.Rejudge.String() {
			limit = s.Batch
		}
		if o.Age > limit {
			holds = append(holds, Condition{
				Kind: OldestWaiting, Subject: o.Lane, Since: now.Add(-o.Age),
				Summary:  fmt.Sprintf("the oldest work in the %s lane has waited for %d s", o.Lane, int(o.Age.Seconds())),
				Evidence: map[string]any{"lane": o.Lane, "job_id": o.JobID, "waiting_ms": o.Age.Milliseconds(), "jobs": o.Jobs},
			})
		}
	}
	if f.Board == nil {
		unseen = append(unseen, Unmatched, JudgeDown, NoCapableWorker, WorkerSetAside)
	} else {
		holds = append(holds, f.Board.unmatched()...)
		holds = append(holds, f.Board.down()...)
		holds = append(holds, f.Board.unserved()...)
		holds = append(holds, f.Board.aside()...)
	}
	return append(holds, happened(f.Events)...), unseen
}

// unmatched is a job and a worker that belong together. One pair a lane is
// enough: the first job and the worker that is free the longest stay the same
// for as long as nothing is given to either.
func (b *Board) unmatched() (holds []Condition) {
	seen := map[dispatch.Lane]bool{}
	for _, g := range b.Groups {
		if g.Free == 0 || seen[g.Lane] {
			continue
		}
		seen[g.Lane] = true
		holds = append(holds, Condition{
			Kind: Unmatched, Subject: g.Lane.String(), Identity: fmt.Sprintf("%d %d", g.First, g.Free),
			Summary:  fmt.Sprintf("job %d in the %s lane waits while worker %s can do it and is free", g.First, g.Lane, g.FreeName),
			Evidence: map[string]any{"lane": g.Lane.String(), "language": g.Language, "job_id": g.First, "worker": g.FreeName, "jobs": g.Jobs},
		})
	}
	return holds
}

// down is work that could be done and nobody who does any.
func (b *Board) down() []Condition {
	if b.Out > 0 || b.Elsewhere || b.Known > 0 && len(b.Asleep) == b.Known {
		return nil
	}
	waiting := 0
	for _, g := range b.Groups {
		// What nobody who is there can do is another alarm.
		if g.Ready() && (g.Able || b.Working == 0) {
			waiting += g.Jobs
		}
	}
	if waiting == 0 {
		return nil
	}
	return []Condition{{
		Kind: JudgeDown, Identity: fmt.Sprint(b.Grants),
		Summary:  fmt.Sprintf("%d jobs wait and nobody is working; %d workers are online, %d of them away", waiting, b.Online, b.Online-b.Working),
		Evidence: map[string]any{"jobs": waiting, "workers_online": b.Online, "workers_away": b.Online - b.Working, "workers_enrolled": b.Known},
	}}
}

// unserved is work that nobody online can do. When all of them are away
// JudgeDown holds too, and this says who would have to come back. Without any
// worker it is JudgeDown alone.
func (b *Board) unserved() []Condition {
	if b.Online == 0 || b.Elsewhere || len(b.Asleep) == b.Known {
		return nil // a fleet that is asleep as planned wakes nobody
	}
	sleeps := map[string]bool{}
	for _, w := range b.Asleep {
		if w.Languages == nil {
			return nil
		}
		for _, l := range w.Languages {
			sleeps[l] = true
		}
	}
	jobs, why, back := map[string]int{}, map[string]string{}, map[string][]dispatch.WorkerReason{}
	for _, g := range b.Groups {
		if !g.Ready() || g.Able || sleeps[g.Language] {
			continue
		}
		subject := cmp.Or(g.Language, g.Lane.String())
		jobs[subject] += g.Jobs
		if why[subject] == "" || len(back[subject]) == 0 && len(g.Back) > 0 {
			why[subject], back[subject] = lacking(g), g.Back
		}
	}
	var holds []Condition
	for subject, n := range jobs {
		holds = append(holds, Condition{
			Kind: NoCapableWorker, Subject: subject,
			Summary:  fmt.Sprintf("%d jobs in %s wait and no worker online can do them: %s", n, subject, why[subject]),
			Evidence: map[string]any{"language": subject, "jobs": n, "reason": why[subject], "workers_online": b.Online},
		})
	}
	slices.SortFunc(holds, func(x, y Condition) int { return cmp.Compare(x.Subject, y.Subject) })
	return holds
}

// lacking says why nobody can do a group, with the names of those who could
// were they not kept away.
func lacking(g dispatch.Group) string {
	const shown = 3
	if len(g.Back) == 0 {
		return g.Refusal
	}
	var texts []string
	for _, w := range g.Back[:min(shown, len(g.Back))] {
		texts = append(texts, fmt.Sprintf("%s could, but %s", w.Name, w.Reason))
	}
	if more := len(g.Back) - shown; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	if i := slices.IndexFunc(g.Back, func(w dispatch.WorkerReason) bool { return strings.HasPrefix(w.Reason, "an operator ") }); i >= 0 {
		texts = append(texts, "gavel worker resume "+g.Back[i].Name+" brings it back")
	}
	return strings.Join(texts, "; ")
}

func (b *Board) aside() (holds []Condition) {
	for _, a := range b.Aside {
		subject := a.Worker
		if a.Language != "" {
			subject += "/" + a.Language
		}
		holds = append(holds, Condition{
			Kind: WorkerSetAside, Subject: subject, Since: a.Since,
			Summary:  subject + " is set aside: " + a.Reason,
			Evidence: map[string]any{"worker": a.Worker, "language": a.Language, "reason": a.Reason, "faults": a.Evidence},
		})
	}
	return holds
}

// happened gathers events of one kind into one condition, with the latest in full.
func happened(events []Event) (holds []Condition) {
	byKind := map[Kind]*Condition{}
	for _, e := range events {
		c := byKind[e.Kind]
		if c == nil {
			c = &Condition{Kind: e.Kind}
			byKind[e.Kind] = c
		}
		c.Count++
		c.Summary, c.Evidence = e.Summary, e.Details
	}
	for _, k := range Kinds() {
		if c := byKind[k]; c != nil {
			holds = append(holds, *c)
		}
	}
	return holds
}
