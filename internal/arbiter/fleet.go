package arbiter

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/gavel-oj/gavel/internal/dispatch"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// unknownRank is that of a pool nobody has ranked.
const unknownRank = 100

// tightLimit is the CPU limit up to which a slow worker is kept off a job
// while a faster one could take it.
const tightLimit = time.Second

// jobOf is a waiting row in dispatch's words.
func jobOf(r *storedb.Job) dispatch.Job {
	lane, ok := dispatch.ParseLane(r.Lane)
	if !ok {
		lane = dispatch.Judge // the table's check knows no other lanes
	}
	return dispatch.Job{
		ID: r.ID, Gen: r.LeaseGen, Lane: lane, Class: int(r.Priority), Submitter: r.Submitter, Retried: r.LeaseGen > 0,
		Language: r.Language, Problem: or0(r.ProblemID), Package: orEmpty(r.PackageDigest),
		Needs: dispatch.Needs{
			Features: r.Features, Tags: r.Tags, MemoryBytes: r.MemoryBytes,
			Tight: r.CPUUs > 0 && time.Duration(r.CPUUs)*time.Microsecond <= tightLimit,
		},
		Batch: or0(r.BatchID), Budget: int(r.BatchBudget), Target: or0(r.TargetWorkerID),
	}
}

func or0(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// enlist tells dispatch what a worker can do and whether it is away. Needs l.mu.
func (l *leadership) enlist(id int64, now time.Time) {
	p := l.presence[id]
	if p == nil || !l.isOnline(id, now) || l.settings[id] != nil && l.settings[id].Disabled {
		l.board.RemoveWorker(id)
		return
	}
	w := dispatch.Worker{
		ID: id, Name: p.name, Rank: unknownRank, Slots: p.slots, Features: p.caps.Features,
		MemoryBytes: p.caps.MemoryBytes, Cached: p.cached, HeardAt: p.seenAt,
	}
	for _, o := range p.caps.Languages {
		w.Languages = append(w.Languages, o.ID)
	}
	if s := l.settings[id]; s != nil {
		w.Pool, w.Rank, w.Tags = s.Pool, int(s.Rank), s.Tags
		for _, name := range s.Lanes {
			if lane, ok := dispatch.ParseLane(name); ok {
				w.Lanes = append(w.Lanes, lane)
			}
		}
		w.Away = awayReason(s.Away, s.AwayNote, s.AwayUntil)
	}
	l.healthAway(id, &w, now)
	l.board.SetWorker(w, now)
}

// awayReason says why an operator's settings give a worker nothing; "" when
// they do not.
func awayReason(away, note string, until *time.Time) string {
	var reason string
	switch away {
	case "":
		return ""
	case "draining":
		reason = "an operator drains it"
	default:
		reason = "an operator has paused it"
	}
	if note != "" {
		reason += ": " + note
	}
	if until != nil {
		reason += ", until " + until.UTC().Format("2006-01-02 15:04 MST")
	}
	return reason
}

// adopt takes over settings of workers. Needs l.mu.
func (l *leadership) adopt(rows []*storedb.FleetSettingsRow) {
	l.settings = make(map[int64]*storedb.FleetSettingsRow, len(rows))
	for _, r := range rows {
		l.settings[r.ID] = r
	}
}

// muster reads what operators say of workers and looks who is still there. It
// runs with every scan, so that what another arbiter was told is known here
// within a moment.
func (l *leadership) muster(ctx context.Context) error {
	orders, err := l.a.readOrders(ctx)
	if err != nil {
		return err
	}
	now := l.a.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.follow(orders)
	l.takeRoll(now)
	return nil
}

// orders are what operators have said: of workers, of their hours, and of what
// is held.
type orders struct {
	settings []*storedb.FleetSettingsRow
	brakes   []*storedb.ListBrakesRow
	plans    plannedHours
}

func (a *Arbiter) readOrders(ctx context.Context) (o orders, err error) {
	if o.settings, err = a.q.FleetSettings(ctx, a.db.Pool); err != nil {
		return o, fmt.Errorf("read the settings of workers: %w", err)
	}
	if o.brakes, err = a.q.ListBrakes(ctx, a.db.Pool); err != nil {
		return o, fmt.Errorf("read brakes: %w", err)
	}
	o.plans, err = a.readHours(ctx)
	return o, err
}

// follow takes orders over. Needs l.mu.
func (l *leadership) follow(o orders) {
	l.adopt(o.settings)
	l.adoptHours(o.plans)
	l.brake(o.brakes)
}

// brake tells dispatch what operators hold. Needs l.mu.
func (l *leadership) brake(rows []*storedb.ListBrakesRow) {
	b := dispatch.Brakes{Lanes: map[dispatch.Lane]string{}, Languages: map[string]string{}, Problems: map[int64]string{}}
	for _, r := range rows {
		switch r.Kind {
		case "lane":
			if lane, ok := dispatch.ParseLane(r.Name); ok {
				b.Lanes[lane] = r.Reason
			}
		case "language":
			b.Languages[r.Name] = r.Reason
		case "problem":
			b.Problems[r.ProblemID] = r.Reason
		}
	}
	if !reflect.DeepEqual(b, l.brakes) {
		l.brakes = b
		l.board.SetBrakes(b)
	}
}

// takeRoll brings dispatch up to date about every worker seen in this term.
// Needs l.mu.
func (l *leadership) takeRoll(now time.Time) {
	for id := range l.presence {
		l.enlist(id, now)
	}
	l.rolledAt = now
}

// rollEvery is how old what readers are told of workers may be: the roll looks
// at every worker under the lock, and many may read.
const rollEvery = time.Second

// lookRound takes the roll for a reader, unless that was done a moment ago.
// Needs l.mu.
func (l *leadership) lookRound(now time.Time) {
	if now.Sub(l.rolledAt) >= rollEvery {
		l.takeRoll(now)
	}
}

// onlineWorkers lists who is there now. Needs l.mu.
func (l *leadership) onlineWorkers(now time.Time) []dispatch.Worker {
	l.lookRound(now)
	return slices.Clone(l.board.Online())
}
