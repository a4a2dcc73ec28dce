package arbiter

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/dispatch"
	"github.com/gavel-oj/gavel/internal/health"
	"github.com/gavel-oj/gavel/internal/probe"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// restoreHealth reads what the leader before has left. It is done once a term:
// from then on memory is newer than the table.
func (l *leadership) restoreHealth(ctx context.Context) error {
	rows, err := l.a.q.ReadHealth(ctx, l.a.db.Pool)
	if err != nil {
		return fmt.Errorf("read the health of workers: %w", err)
	}
	open, err := l.a.q.OpenProbeJobs(ctx, l.a.db.Pool)
	if err != nil {
		return fmt.Errorf("read open probes: %w", err)
	}
	states := make(map[int64][]byte, len(rows))
	for _, r := range rows {
		states[r.WorkerID] = r.State
	}
	fleet, err := health.Restore(l.a.cfg.Health, states)
	if err != nil {
		l.a.log.Error("a stored state of health cannot be read; the worker begins anew", "error", err)
	}
	there := make(map[int64]bool, len(open))
	for _, j := range open {
		there[j.ID] = true
	}
	for id := range states {
		if s := fleet.State(id); s != nil && s.Open != nil && !there[s.Open.JobID] {
			fleet.ProbeDropped(id, s.Open.JobID)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.health = fleet
	for _, j := range open { // a probe that nobody waits for any more
		id := or0(j.TargetWorkerID)
		if s := fleet.State(id); s == nil || s.Open == nil || s.Open.JobID != j.ID {
			l.orphans = append(l.orphans, j.ID)
		}
	}
	return nil
}

// noteHealth takes up what has become of workers: dispatch is told at once,
// the log and the tables in a moment. Needs l.mu.
func (l *leadership) noteHealth(changes []health.Change) {
	now := l.a.clock.Now()
	for _, c := range changes {
		l.healthNews = append(l.healthNews, c)
		l.enlist(c.WorkerID, now)
		name := ""
		if p := l.presence[c.WorkerID]; p != nil {
			name = p.name
		}
		log := l.a.log.Warn
		if c.What == health.Returned {
			log = l.a.log.Info
		}
		log("health of a worker", "worker_id", c.WorkerID, "worker", name, "language", c.Language, "what", string(c.What), "reason", c.Reason)
	}
	if len(changes) > 0 {
		l.poke()
	}
}

// judged tells health of a verdict. h is nil when memory did not know the lease.
func (l *leadership) judged(h *held) {
	if h == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noteHealth(l.health.Succeed(h.workerID, h.job.Language, h.jobID, l.a.clock.Now()))
}

// failed tells health of an attempt that ended without a verdict.
func (l *leadership) failed(h *held, kind health.Kind, blame, message string) {
	if h == nil {
		return
	}
	now := l.a.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if kind == health.Lost && l.asleep(h.workerID, now) {
		return // its absence is planned
	}
	l.noteHealth(l.health.Fail(health.Fault{
		WorkerID: h.workerID, Language: h.job.Language, JobID: h.jobID, Kind: kind, Blame: blame, Message: message,
		GrantedAt: h.registered, At: now,
	}))
	l.enlist(h.workerID, now) // it may be in doubt
}

// lookUp is the lease of a token as far as memory knows it.
func (l *leadership) lookUp(h foundLease) *held {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[h.token]
}

// joined tells health what a worker offers, those languages first whose probes
// are quick. Needs l.mu.
func (l *leadership) joined(id int64, session string, caps gavelapi.Capabilities, now time.Time) {
	var quick, slow []health.Offer
	for _, o := range caps.Languages {
		offer := health.Offer{Language: o.ID, Version: o.Version}
		if probe.Quick(o.ID) {
			quick = append(quick, offer)
		} else {
			slow = append(slow, offer)
		}
	}
	l.health.Join(id, session, append(quick, slow...), now)
}

// lastHealth writes what is not written yet, at an orderly stop.
func (l *leadership) lastHealth(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := l.writeHealth(ctx); err != nil {
		l.a.log.Warn("the health of workers was not written at the end", "error", err)
	}
}

// writeHealth writes the states that have changed, and what became of whom.
func (l *leadership) writeHealth(ctx context.Context) error {
	p := storedb.WriteHealthParams{Shard: shard, Term: l.term}
	l.mu.Lock()
	ids, news := l.health.Changed(), l.healthNews
	l.healthNews = nil
	for _, id := range ids {
		raw, err := l.health.Dump(id)
		if err != nil {
			l.a.log.Error("a state of health cannot be written", "error", err)
			continue
		}
		since, reason := time.Time{}, ""
		if aside := l.health.State(id).Worker.Aside; aside != nil {
			since, reason = aside.Since, aside.Reason
		}
		p.WorkerIds, p.States = append(p.WorkerIds, id), append(p.States, raw)
		p.SetAsideAts, p.Reasons = append(p.SetAsideAts, since), append(p.Reasons, reason)
		p.Languages = append(p.Languages, mustJSON(l.health.AsideLanguages(id)))
		p.SpeedFactors = append(p.SpeedFactors, l.health.Factor(id))
	}
	l.mu.Unlock()
	err := l.writeHealthRows(ctx, &p, news)
	if err != nil {
		l.mu.Lock()
		l.health.Redo(ids)
		l.healthNews = append(news, l.healthNews...)
		l.mu.Unlock()
	}
	return err
}

func (l *leadership) writeHealthRows(ctx context.Context, p *storedb.WriteHealthParams, news []health.Change) error {
	if len(p.WorkerIds) > 0 {
		if _, err := l.a.q.WriteHealth(ctx, l.a.db.Pool, p); err != nil {
			return fmt.Errorf("write the health of %d workers: %w", len(p.WorkerIds), err)
		}
	}
	if len(news) == 0 {
		return nil
	}
	var rows storedb.InsertHealthChangesParams
	for _, c := range news {
		rows.WorkerIds, rows.Languages = append(rows.WorkerIds, c.WorkerID), append(rows.Languages, c.Language)
		rows.Whats, rows.Reasons = append(rows.Whats, string(c.What)), append(rows.Reasons, c.Reason)
		rows.Evidences = append(rows.Evidences, mustJSON(append([]health.Evidence{}, c.Evidence...)))
	}
	if _, err := l.a.q.InsertHealthChanges(ctx, l.a.db.Pool, &rows); err != nil {
		return fmt.Errorf("write %d changes of health: %w", len(news), err)
	}
	return nil
}

// healthAway fills in what health and planned hours have against a worker. Needs l.mu.
func (l *leadership) healthAway(id int64, w *dispatch.Worker, now time.Time) {
	if w.Away == "" {
		w.Away = l.sleepReason(id, now)
	}
	if w.Away == "" {
		w.Away = l.health.Away(id)
	}
	w.AsideLanguages = l.health.AsideLanguages(id)
	if limit := l.health.MinCPULimit(id); limit > 0 {
		w.Slow = fmt.Sprintf("slow (%.2f × the fleet's median): no time limits of %v or less", l.health.Factor(id), limit)
	}
}

// standing is what a list of workers says of one.
type standing struct {
	away   string
	aside  bool
	asleep bool
	speed  float64 // 0 is unknown
}

// standings is a copy of what every worker's standing is now. Needs l.mu.
func (l *leadership) standings(now time.Time) func(int64) standing {
	all := map[int64]standing{}
	ids := slices.Collect(maps.Keys(l.settings))
	for id := range l.presence {
		if l.settings[id] == nil {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		var w dispatch.Worker
		if s := l.settings[id]; s != nil {
			w.Away = awayReason(s.Away, s.AwayNote, s.AwayUntil)
		}
		l.healthAway(id, &w, now)
		s := standing{away: w.Away, asleep: l.asleep(id, now)}
		if h := l.health.State(id); h != nil {
			s.aside = h.Worker.Aside != nil
			if len(h.Speeds) > 0 {
				s.speed = l.health.Factor(id)
			}
		}
		all[id] = s
	}
	return func(id int64) standing { return all[id] }
}

func evidenceOf(list []health.Evidence) []gavelapi.HealthEvidence {
	out := make([]gavelapi.HealthEvidence, 0, len(list))
	for _, e := range list {
		out = append(out, gavelapi.HealthEvidence{
			Case: e.Case, JobID: e.JobID, Language: e.Language, Kind: string(e.Kind), Blame: e.Blame, Message: e.Message,
			At: e.At.UTC(), Counts: !e.Same && !e.Excused,
		})
	}
	return out
}

func asideOf(language string, m *health.Mark) gavelapi.SetAside {
	a := m.Aside
	return gavelapi.SetAside{
		Language: language, Since: a.Since.UTC(), ProbeAfter: a.Until.UTC(), Reason: a.Reason, FailedRounds: a.Tries,
		Evidence: evidenceOf(a.Evidence),
	}
}

// describeHealth puts a worker's state into the words of the API.
func describeHealth(name string, id int64, f *health.Fleet) gavelapi.WorkerHealth {
	drift, _ := f.Drift(id)
	h := gavelapi.WorkerHealth{
		Worker: name, Away: f.Away(id), SpeedFactor: f.Factor(id), Slow: f.Slow(id), Drift: drift,
		SetAside: []gavelapi.SetAside{}, Faults: []gavelapi.HealthEvidence{}, Speeds: []gavelapi.SpeedPoint{},
	}
	s := f.State(id)
	if s == nil {
		return h
	}
	if s.Worker.Aside != nil {
		h.SetAside = append(h.SetAside, asideOf("", &s.Worker))
	}
	seen := map[string]bool{}
	add := func(list []health.Evidence) {
		for _, e := range evidenceOf(list) {
			if !seen[e.Case] {
				seen[e.Case] = true
				h.Faults = append(h.Faults, e)
			}
		}
	}
	add(s.Worker.Streak)
	for _, l := range slices.Sorted(maps.Keys(s.Languages)) {
		m := s.Languages[l]
		if m.Aside != nil {
			h.SetAside = append(h.SetAside, asideOf(l, m))
		}
		add(m.Streak)
	}
	h.ProbesDue = len(s.Joining) + len(s.Returning)
	for _, p := range s.Speeds {
		h.Speeds = append(h.Speeds, gavelapi.SpeedPoint{At: p.At.UTC(), Factor: p.Factor})
	}
	return h
}

// changesOf reads the evidence that was stored with a change.
func changesOf(rows []*storedb.HealthChangesOfRow) ([]gavelapi.HealthChange, error) {
	out := make([]gavelapi.HealthChange, 0, len(rows))
	for _, r := range rows {
		var list []health.Evidence
		if err := json.Unmarshal(r.Evidence, &list); err != nil {
			return nil, fmt.Errorf("stored evidence: %w", err)
		}
		out = append(out, gavelapi.HealthChange{At: r.At.UTC(), Language: r.Language, What: r.What, Reason: r.Reason, Evidence: evidenceOf(list)})
	}
	return out, nil
}
