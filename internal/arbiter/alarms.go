package arbiter

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/alarm"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

const (
	// watchEvery is how often the leader looks for what deserves attention.
	watchEvery = time.Second
	// oldestEvery is how often the database is asked for the oldest waiting
	// work: one pass over what is open.
	oldestEvery = 5 * time.Second
	// watchPatience bounds each thing that a look waits for, so that what is
	// stuck does not take its watcher along.
	watchPatience = 2 * time.Second
	// alarmsKept is how long an alarm that has ended is kept.
	alarmsKept = 90 * 24 * time.Hour
)

// alarmWatch is what the watching loop knows during one term.
type alarmWatch struct {
	l         *leadership
	watch     *alarm.Watch
	oldest    []alarm.Oldest
	askedAt   time.Time
	unwritten []alarm.Change
}

// watchLoop looks at the term that this arbiter leads, if it does, until ctx
// ends. It belongs to the arbiter and not to the term: a term whose loops are
// stuck does not end.
func (a *Arbiter) watchLoop(ctx context.Context) {
	ticker := a.clock.NewTicker(watchEvery)
	defer ticker.Stop()
	var w *alarmWatch
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		l := a.current.Load()
		if l == nil {
			a.openAlarms.Store(nil)
			continue
		}
		if w == nil || w.l != l {
			var err error
			if w, err = l.newAlarmWatch(ctx); err != nil {
				if ctx.Err() == nil {
					a.log.Warn("reading open alarms failed", "error", err)
				}
				continue
			}
		}
		w.look(ctx)
		now := a.clock.Now()
		l.lookedAt.Store(&now)
	}
}

// newAlarmWatch takes over the alarms that the term before has left open.
func (l *leadership) newAlarmWatch(ctx context.Context) (*alarmWatch, error) {
	ctx, cancel := context.WithTimeout(ctx, watchPatience)
	defer cancel()
	rows, err := l.a.q.OpenAlarms(ctx, l.a.db.Pool)
	if err != nil {
		return nil, err
	}
	var open []alarm.Alarm
	for _, r := range rows {
		al := alarm.Alarm{
			Kind: alarm.Kind(r.Kind), Subject: r.Subject, Severity: alarm.Severity(r.Severity), Summary: r.Summary,
			Count: r.Occurrences, Since: r.Since, Started: r.StartedAt,
		}
		if err := json.Unmarshal(r.Evidence, &al.Evidence); err != nil {
			l.a.log.Error("the evidence of a stored alarm cannot be read", "alarm_id", r.ID, "error", err)
		}
		open = append(open, al)
	}
	return &alarmWatch{l: l, watch: alarm.New(l.a.cfg.Alarms, open, l.a.clock.Now())}, nil
}

// look gathers facts, and writes down what became of alarms.
func (w *alarmWatch) look(ctx context.Context) {
	a := w.l.a
	facts := w.facts(ctx)
	for _, c := range w.watch.Look(a.clock.Now(), facts) {
		w.unwritten = append(w.unwritten, c)
		log := a.log.Warn
		if c.What == alarm.Ended || c.Alarm.Severity == alarm.Info {
			log = a.log.Info
		}
		if c.What != alarm.Continued {
			log("alarm "+string(c.What), "alarm", string(c.Alarm.Kind), "subject", c.Alarm.Subject, "summary", c.Alarm.Summary)
		}
	}
	open := w.watch.Open()
	a.openAlarms.Store(&open)
	for len(w.unwritten) > 0 {
		if err := w.write(ctx, w.unwritten[0]); err != nil {
			if ctx.Err() == nil {
				a.log.Warn("writing down an alarm failed", "alarm", string(w.unwritten[0].Alarm.Kind), "error", err)
			}
			return // in order, at the next look
		}
		w.unwritten = w.unwritten[1:]
	}
}

// facts sees what can be seen within watchPatience each.
func (w *alarmWatch) facts(ctx context.Context) alarm.Facts {
	l := w.l
	f := alarm.Facts{LoopedAt: *l.loopedAt.Load()}
	now := l.a.clock.Now()
	if w.oldest == nil || now.Sub(w.askedAt) >= oldestEvery {
		w.askedAt = now
		if err := w.ask(ctx); err != nil {
			w.oldest = nil
			if ctx.Err() == nil {
				l.a.log.Warn("looking for the oldest waiting work failed", "error", err)
			}
		}
	}
	f.Oldest = w.oldest
	if board, ok := looked(l, l.surveyed); ok {
		f.Board = board
		f.Board.Elsewhere = len(*l.edge.Load()) > 0
	}
	f.Events = l.takeEvents()
	return f
}

func (w *alarmWatch) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, watchPatience)
	defer cancel()
	a := w.l.a
	w.l.diskFull.Store(a.db.DiskFull(ctx))
	rows, err := a.q.OldestPending(ctx, a.db.Pool)
	if err != nil {
		return err
	}
	oldest := []alarm.Oldest{}
	for _, r := range rows {
		oldest = append(oldest, alarm.Oldest{Lane: r.Lane, Jobs: r.Jobs, JobID: r.JobID, Age: time.Duration(r.AgeS * float64(time.Second))})
	}
	w.oldest = oldest
	w.l.oldest.Store(&oldest) // not of the field, which the next look replaces
	backlog, err := a.q.WebhookBacklog(ctx, a.db.Pool)
	if err != nil {
		return err
	}
	w.l.backlog.Store(backlog)
	w.l.messages.Store(backlog > 0)
	ids, err := a.q.EdgeWorkersPresent(ctx, a.db.Pool)
	if err != nil {
		return err
	}
	edge := make(map[int64]bool, len(ids))
	for _, id := range ids {
		edge[id] = true
	}
	w.l.edge.Store(&edge)
	return nil
}

// surveyed is what memory says to the rules of alarms. Needs l.mu.
func (l *leadership) surveyed() *alarm.Board {
	now := l.a.clock.Now()
	if now.Sub(l.rolledAt) > 2*scanEvery {
		l.takeRoll(now) // the dispatch loop should have
	}
	b := &alarm.Board{Survey: l.board.Survey(), Grants: l.grants}
	for id, s := range l.settings {
		if s.Disabled {
			continue
		}
		b.Known++
		if l.asleep(id, now) {
			sleeper := alarm.Sleeper{Name: s.Name}
			if p := l.presence[id]; p != nil {
				sleeper.Languages = []string{}
				for _, o := range p.caps.Languages {
					sleeper.Languages = append(sleeper.Languages, o.ID)
				}
			}
			b.Asleep = append(b.Asleep, sleeper)
		}
		h := l.health.State(id)
		if h == nil {
			continue
		}
		if h.Worker.Aside != nil {
			b.Aside = append(b.Aside, asideFact(s.Name, "", h.Worker.Aside.Since, h.Worker.Aside.Reason, asideOf("", &h.Worker).Evidence))
		}
		for _, language := range slices.Sorted(maps.Keys(h.Languages)) {
			if m := h.Languages[language]; m.Aside != nil {
				b.Aside = append(b.Aside, asideFact(s.Name, language, m.Aside.Since, m.Aside.Reason, asideOf(language, m).Evidence))
			}
		}
	}
	return b
}

// looked sees something under l.mu, unless the lock cannot be had for a while.
// A look that was given up ends by itself when the lock is free; as long as
// several of them wait no other is begun.
func looked[T any](l *leadership, see func() T) (T, bool) {
	var none T
	const most = 4
	if l.looks.Add(1) > most {
		l.looks.Add(-1)
		return none, false
	}
	got := make(chan T, 1)
	go func() {
		defer l.looks.Add(-1)
		l.mu.Lock()
		defer l.mu.Unlock()
		got <- see()
	}()
	select {
	case v := <-got:
		return v, true
	case <-l.a.clock.After(watchPatience):
		return none, false
	}
}

// eventsKept bounds what happened between two looks.
const eventsKept = 1000

// happened notes something for the next look.
func (l *leadership) happened(kind alarm.Kind, summary string, details map[string]any) {
	switch kind {
	case alarm.ResultDiscarded:
		l.a.count.fenced.Add(1)
	case alarm.AttemptCap:
		l.a.count.usedUp.Add(1)
	}
	l.eventsMu.Lock()
	defer l.eventsMu.Unlock()
	if len(l.events) < eventsKept {
		l.events = append(l.events, alarm.Event{Kind: kind, Summary: summary, Details: details})
	}
}

func (l *leadership) takeEvents() []alarm.Event {
	l.eventsMu.Lock()
	defer l.eventsMu.Unlock()
	events := l.events
	l.events = nil
	return events
}

// write stores a change under the term, and with it what is to be sent.
func (w *alarmWatch) write(ctx context.Context, c alarm.Change) error {
	ctx, cancel := context.WithTimeout(ctx, watchPatience)
	defer cancel()
	l, al := w.l, c.Alarm
	evidence := mustJSON(al.Evidence)
	if al.Evidence == nil {
		evidence = json.RawMessage("{}")
	}
	defer l.messages.Store(true) // whether or not it was committed
	return l.a.db.InTx(ctx, func(tx pgx.Tx) error {
		var err error
		var rows []*storedb.Alarm
		switch c.What {
		case alarm.Continued:
			_, err = l.a.q.ContinueAlarm(ctx, tx, &storedb.ContinueAlarmParams{
				Kind: string(al.Kind), Subject: al.Subject, Summary: al.Summary, Evidence: evidence, Occurrences: al.Count, Shard: shard, Term: l.term,
			})
		case alarm.Started:
			rows, err = l.a.q.StartAlarm(ctx, tx, &storedb.StartAlarmParams{
				Kind: string(al.Kind), Subject: al.Subject, Severity: string(al.Severity), Summary: al.Summary, Evidence: evidence,
				Occurrences: al.Count, Held: l.a.clock.Now().Sub(al.Since), Shard: shard, Term: l.term,
			})
		case alarm.Ended:
			rows, err = l.a.q.EndAlarm(ctx, tx, &storedb.EndAlarmParams{
				Kind: string(al.Kind), Subject: al.Subject, Summary: al.Summary, Evidence: evidence, Occurrences: al.Count, Shard: shard, Term: l.term,
			})
		}
		if err != nil {
			return fmt.Errorf("alarm %s %s: %w", al.Kind, c.What, err)
		}
		return l.a.announce(ctx, tx, c.What, rows)
	})
}

func asideFact(worker, language string, since time.Time, reason string, evidence []gavelapi.HealthEvidence) alarm.Aside {
	f := alarm.Aside{Worker: worker, Language: language, Since: since, Reason: reason}
	for _, e := range evidence {
		f.Evidence = append(f.Evidence, fmt.Sprintf("%s %s: %s", e.Case, e.Kind, e.Message))
	}
	return f
}
