package arbiter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/auth"
	"github.com/gavel-oj/gavel/internal/health"
	"github.com/gavel-oj/gavel/internal/hours"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// DefaultSleepLead is how long before a planned absence nothing new is given.
const DefaultSleepLead = 5 * time.Minute

// plannedHours are everybody's plans: of workers by id, and of pools.
type plannedHours struct {
	workers map[int64]hours.Plan
	pools   map[string]hours.Plan
}

func (a *Arbiter) readHours(ctx context.Context) (plannedHours, error) {
	rows, err := a.q.AllPlannedHours(ctx, a.db.Pool)
	if err != nil {
		return plannedHours{}, fmt.Errorf("read planned hours: %w", err)
	}
	all := plannedHours{workers: map[int64]hours.Plan{}, pools: map[string]hours.Plan{}}
	for _, r := range rows {
		plan, err := hours.Parse(r.Hours, r.Zone)
		if err != nil { // written by hand, or by a newer version
			a.log.Error("stored hours cannot be read; they do not count", "pool", r.Pool, "error", err)
			continue
		}
		if r.WorkerID != nil {
			all.workers[*r.WorkerID] = plan
		} else {
			all.pools[r.Pool] = plan
		}
	}
	return all, nil
}

// of is the plan of a worker: its own, else its pool's.
func (p plannedHours) of(workerID int64, pool string) hours.Plan {
	if plan, own := p.workers[workerID]; own {
		return plan
	}
	return p.pools[pool]
}

// adoptHours takes over plans; the settings of workers name their pools. Needs l.mu.
func (l *leadership) adoptHours(all plannedHours) {
	l.hours = make(map[int64]*sleeper, len(l.settings))
	shared := map[string]*sleeper{}
	for id, s := range l.settings {
		plan := all.of(id, s.Pool)
		if plan.Zero() {
			continue
		}
		key := plan.Zone() + " " + plan.String()
		if shared[key] == nil {
			shared[key] = &sleeper{plan: plan}
		}
		l.hours[id] = shared[key]
	}
}

// sleeper is a plan with what it said last: dispatch asks for each worker,
// and many share a plan.
type sleeper struct {
	plan   hours.Plan
	at     time.Time
	phase  hours.Phase
	reason string
}

// ask says what the plan wants, as of a moment ago at most. Needs l.mu.
func (s *sleeper) ask(now time.Time, lead time.Duration) {
	const moment = 250 * time.Millisecond
	if age := now.Sub(s.at); age >= 0 && age < moment {
		return
	}
	s.at, s.reason = now, s.plan.Reason(now, lead)
	s.phase, _ = s.plan.At(now, lead)
}

// sleepReason says why planned hours keep a worker from getting work. Needs l.mu.
func (l *leadership) sleepReason(id int64, now time.Time) string {
	s := l.hours[id]
	if s == nil {
		return ""
	}
	s.ask(now, l.a.cfg.SleepLead)
	return s.reason
}

// asleep says whether a worker's absence is planned. Needs l.mu.
func (l *leadership) asleep(id int64, now time.Time) bool {
	s := l.hours[id]
	if s == nil {
		return false
	}
	s.ask(now, l.a.cfg.SleepLead)
	return s.phase == hours.Asleep
}

// describeHours puts a plan into the words of the API.
func (a *Arbiter) describeHours(p hours.Plan) gavelapi.PlannedHours {
	d := gavelapi.PlannedHours{Hours: p.String(), Zone: p.Zone()}
	if p.Zero() {
		return d
	}
	now := a.clock.Now()
	phase, span := p.At(now, a.cfg.SleepLead)
	if phase == hours.Open {
		d.Phase = "open"
		next, ok := p.Next(now)
		if !ok {
			return d
		}
		span = next
	} else {
		d.Phase = string(phase)
	}
	d.From, d.Until = utc(&span.From), utc(&span.To)
	return d
}

func parseHours(n gavelapi.NewHours) (hours.Plan, error) {
	plan, err := hours.Parse(n.Hours, n.Zone)
	if bad, ok := errors.AsType[*hours.Error](err); ok {
		return plan, apperr.New(apperr.Invalid, bad.Hint, "%s", bad.What).At("body.hours")
	}
	return plan, err
}

func (a *Arbiter) workerByName(ctx context.Context, name string) (*storedb.WorkerByNameRow, error) {
	w, err := a.q.WorkerByName(ctx, a.db.Pool, name)
	if store.IsNoRows(err) {
		return nil, noWorker(name)
	}
	if err != nil {
		return nil, unavailable(err, "read a worker")
	}
	return w, nil
}

// SetWorkerHours implements httpapi.Service.
func (a *Arbiter) SetWorkerHours(ctx context.Context, p auth.Principal, name string, n gavelapi.NewHours) (gavelapi.PlannedHours, error) {
	plan, err := parseHours(n)
	if err != nil {
		return gavelapi.PlannedHours{}, err
	}
	w, err := a.workerByName(ctx, name)
	if err != nil {
		return gavelapi.PlannedHours{}, err
	}
	err = a.carryOut(ctx, p, deed{action: "worker.hours", subject: name, reason: n.Reason, details: n, do: func(tx pgx.Tx) error {
		if plan.Zero() {
			_, err := a.q.DropWorkerHours(ctx, tx, w.ID)
			return err
		}
		_, err := a.q.SetWorkerHours(ctx, tx, &storedb.SetWorkerHoursParams{WorkerID: w.ID, Hours: plan.String(), Zone: plan.Zone(), ChangedBy: &p.TokenID})
		return err
	}})
	if err != nil {
		return gavelapi.PlannedHours{}, err
	}
	d := a.describeHours(plan)
	d.Worker = name
	return d, nil
}

// SetPoolHours implements httpapi.Service.
func (a *Arbiter) SetPoolHours(ctx context.Context, p auth.Principal, pool string, n gavelapi.NewHours) (gavelapi.PlannedHours, error) {
	if !validName.MatchString(pool) {
		return gavelapi.PlannedHours{}, apperr.New(apperr.Invalid, "use letters, digits, dot, dash and underscore, at most 64", "this cannot be a pool's name").At("path.name")
	}
	plan, err := parseHours(n)
	if err != nil {
		return gavelapi.PlannedHours{}, err
	}
	err = a.carryOut(ctx, p, deed{action: "pool.hours", subject: pool, reason: n.Reason, details: n, do: func(tx pgx.Tx) error {
		if plan.Zero() {
			_, err := a.q.DropPoolHours(ctx, tx, pool)
			return err
		}
		_, err := a.q.SetPoolHours(ctx, tx, &storedb.SetPoolHoursParams{Pool: pool, Hours: plan.String(), Zone: plan.Zone(), ChangedBy: &p.TokenID})
		return err
	}})
	if err != nil {
		return gavelapi.PlannedHours{}, err
	}
	d := a.describeHours(plan)
	d.Pool = pool
	return d, nil
}

// How much of the past is shown.
const (
	probesShown  = 40
	changesShown = 20
)

// WorkerHealth implements httpapi.Service.
func (a *Arbiter) WorkerHealth(ctx context.Context, name string) (gavelapi.WorkerHealth, error) {
	var none gavelapi.WorkerHealth
	w, err := a.workerByName(ctx, name)
	if err != nil {
		return none, err
	}
	h, err := a.currentHealth(ctx, w.ID, name)
	if err != nil {
		return none, err
	}
	changes, err := a.q.HealthChangesOf(ctx, a.db.Pool, &storedb.HealthChangesOfParams{WorkerID: w.ID, Page: changesShown})
	if err != nil {
		return none, unavailable(err, "read the history of a worker")
	}
	if h.Changes, err = changesOf(changes); err != nil {
		return none, err
	}
	probes, err := a.q.ProbesOf(ctx, a.db.Pool, &storedb.ProbesOfParams{WorkerID: w.ID, Page: probesShown})
	if err != nil {
		return none, unavailable(err, "read the probes of a worker")
	}
	h.Probes = make([]gavelapi.ProbeResult, 0, len(probes))
	for _, r := range probes {
		h.Probes = append(h.Probes, gavelapi.ProbeResult{
			ID: r.ID, Language: r.Language, Expected: r.Program, Purpose: r.Purpose, CreatedAt: r.CreatedAt.UTC(), FinishedAt: utc(r.FinishedAt),
			Outcome: orEmpty(r.Outcome), Verdict: r.Verdict, Message: r.Message, CPUUS: r.CPUUs, WallUS: r.WallUs, TookUS: r.TookUs,
		})
	}
	all, err := a.readHours(ctx)
	if err != nil {
		return none, unavailable(err, "read planned hours")
	}
	if plan := all.of(w.ID, w.Pool); !plan.Zero() {
		d := a.describeHours(plan)
		if _, own := all.workers[w.ID]; own {
			d.Worker = name
		} else {
			d.Pool = w.Pool
		}
		h.Hours = &d
	}
	return h, nil
}

// currentHealth is the leader's memory where this arbiter leads, else what the
// leader has written.
func (a *Arbiter) currentHealth(ctx context.Context, id int64, name string) (gavelapi.WorkerHealth, error) {
	if l := a.current.Load(); l != nil {
		now := a.clock.Now()
		l.mu.Lock()
		defer l.mu.Unlock()
		h := describeHealth(name, id, l.health)
		if reason := l.sleepReason(id, now); reason != "" {
			h.Away = reason
		}
		return h, nil
	}
	rows, err := a.q.ReadHealth(ctx, a.db.Pool)
	if err != nil {
		return gavelapi.WorkerHealth{}, unavailable(err, "read the health of workers")
	}
	states := make(map[int64][]byte, len(rows))
	for _, r := range rows {
		states[r.WorkerID] = r.State
	}
	fleet, err := health.Restore(a.cfg.Health, states)
	if err != nil {
		a.log.Error("a stored state of health cannot be read", "error", err)
	}
	return describeHealth(name, id, fleet), nil
}

// ResetHealth implements httpapi.Service.
func (a *Arbiter) ResetHealth(ctx context.Context, p auth.Principal, name string, reset gavelapi.HealthReset) (gavelapi.WorkerHealth, error) {
	var none gavelapi.WorkerHealth
	l, err := a.leading()
	if err != nil {
		return none, err
	}
	w, err := a.workerByName(ctx, name)
	if err != nil {
		return none, err
	}
	err = a.carryOut(ctx, p, deed{action: "worker.reset", subject: name, reason: reset.Reason, details: reset, do: func(pgx.Tx) error { return nil }})
	if err != nil {
		return none, err
	}
	l.mu.Lock()
	changes := l.health.Reset(w.ID, reset.Language, a.clock.Now())
	for i := range changes {
		changes[i].Reason = fmt.Sprintf("reset by an operator (token %d): %s", p.TokenID, reset.Reason)
	}
	l.noteHealth(changes)
	l.enlist(w.ID, a.clock.Now())
	l.poke()
	l.mu.Unlock()
	if err := l.writeHealth(ctx); err != nil {
		return none, unavailable(err, "store the health of a worker")
	}
	return a.WorkerHealth(ctx, name)
}
