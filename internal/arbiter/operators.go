package arbiter

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/auth"
	"github.com/gavel-oj/gavel/internal/dispatch"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// deed is something an operator does: written with its audit row or not at all.
type deed struct {
	action, subject, reason string
	details                 any
	do                      func(tx pgx.Tx) error
}

// written is its row in the audit trail.
func (d *deed) written(p auth.Principal) *storedb.InsertAuditParams {
	token, details := p.TokenID, d.details
	if details == nil {
		details = struct{}{}
	}
	return &storedb.InsertAuditParams{TokenID: &token, Action: d.action, Subject: d.subject, Reason: d.reason, Details: mustJSON(details)}
}

// carryOut does it. It is in force when this returns where this arbiter leads,
// else within a scan of the one that does.
func (a *Arbiter) carryOut(ctx context.Context, p auth.Principal, d deed) error {
	err := a.db.InTx(ctx, func(tx pgx.Tx) error {
		if err := d.do(tx); err != nil {
			return err
		}
		return a.q.InsertAudit(ctx, tx, d.written(p))
	})
	if err != nil {
		if apperr.CodeOf(err) != apperr.Internal {
			return err
		}
		return unavailable(err, d.action)
	}
	a.log.Info("operator", "action", d.action, "subject", d.subject, "reason", d.reason, "by", p)
	if l := a.current.Load(); l != nil {
		if err := l.muster(ctx); err != nil { // the scan does it
			a.log.Warn("what an operator did is not in force yet", "action", d.action, "error", err)
		}
		l.scanDue.Store(true)
		l.poke()
	}
	return nil
}

// ChangeWorker implements httpapi.Service.
func (a *Arbiter) ChangeWorker(ctx context.Context, p auth.Principal, name string, c gavelapi.WorkerChange) (gavelapi.WorkerInfo, error) {
	if c.ForSeconds > 0 {
		until := a.clock.Now().Add(time.Duration(c.ForSeconds) * time.Second)
		c.Until = &until
	}
	away := map[string]string{"drain": "draining", "pause": "paused", "resume": ""}
	state, known := away[c.Action]
	switch {
	case !known:
		return gavelapi.WorkerInfo{}, apperr.New(apperr.Invalid, "use drain, pause or resume", "this is no action").At("body.action")
	case c.Until != nil && !c.Until.After(a.clock.Now()):
		return gavelapi.WorkerInfo{}, apperr.New(apperr.Invalid, "name a time to come", "the end has passed already").At("body.until")
	}
	note := c.Note
	if c.Action == "resume" { // why is for the audit trail: the worker is not away
		note, c.Until = "", nil
	}
	err := a.carryOut(ctx, p, deed{action: "worker." + c.Action, subject: name, reason: c.Note, details: c, do: func(tx pgx.Tx) error {
		n, err := a.q.SetWorkerAway(ctx, tx, &storedb.SetWorkerAwayParams{Away: state, Note: note, Until: c.Until, Name: name})
		return found(n, err, noWorker(name))
	}})
	if err != nil {
		return gavelapi.WorkerInfo{}, err
	}
	return a.Worker(ctx, name)
}

func found(n int64, err, missing error) error {
	if err == nil && n == 0 {
		return missing
	}
	return err
}

// once is a list with each word in it once. One that is not given stays that.
func once(words []string) []string {
	if words == nil {
		return nil
	}
	list := []string{}
	for _, w := range words {
		list = appendNew(list, w)
	}
	return list
}

// LabelWorker implements httpapi.Service.
func (a *Arbiter) LabelWorker(ctx context.Context, p auth.Principal, name string, l gavelapi.WorkerLabels) (gavelapi.WorkerInfo, error) {
	l.Tags, l.Lanes = once(l.Tags), once(l.Lanes)
	params := storedb.LabelWorkerParams{Tags: l.Tags, Lanes: l.Lanes, Name: name}
	if l.Pool != "" {
		if !validName.MatchString(l.Pool) {
			return gavelapi.WorkerInfo{}, apperr.New(apperr.Invalid, "use letters, digits, dot, dash and underscore, at most 64", "this cannot be a pool's name").At("body.pool")
		}
		params.Pool = &l.Pool
	}
	for _, tag := range l.Tags {
		if !validName.MatchString(tag) {
			return gavelapi.WorkerInfo{}, apperr.New(apperr.Invalid, "use letters, digits, dot, dash and underscore, at most 64", "this cannot be a tag").At("body.tags")
		}
	}
	for _, lane := range l.Lanes {
		if parsed, ok := dispatch.ParseLane(lane); !ok || parsed == dispatch.Probe {
			return gavelapi.WorkerInfo{}, apperr.New(apperr.Invalid, "the lanes are run, judge, prepare and rejudge", "there is no such lane").At("body.lanes")
		}
	}
	err := a.carryOut(ctx, p, deed{action: "worker.label", subject: name, reason: l.Reason, details: l, do: func(tx pgx.Tx) error {
		n, err := a.q.LabelWorker(ctx, tx, &params)
		return found(n, err, noWorker(name))
	}})
	if err != nil {
		return gavelapi.WorkerInfo{}, err
	}
	return a.Worker(ctx, name)
}

// RemoveWorker implements httpapi.Service. What the worker holds goes to
// others at once; its token is refused from now on, here at once and by other
// arbiters within tokenTrusted.
func (a *Arbiter) RemoveWorker(ctx context.Context, p auth.Principal, name, reason string) error {
	var id int64
	err := a.carryOut(ctx, p, deed{action: "worker.remove", subject: name, reason: reason, do: func(tx pgx.Tx) error {
		var err error
		if id, err = a.q.RemoveWorker(ctx, tx, name); err != nil {
			if store.IsNoRows(err) {
				return noWorker(name)
			}
			return err
		}
		if _, err := a.q.RevokeWorkerTokens(ctx, tx, id); err != nil {
			return err
		}
		_, err = a.q.ExpireWorker(ctx, tx, id)
		return err
	}})
	if err != nil {
		return err
	}
	a.tokens.forgetWorker(id)
	if l := a.current.Load(); l != nil {
		l.dismiss(id)
		l.hurry(id)
	}
	return nil
}

// hurry lets the reclaim loop look at the leases of a worker now.
func (l *leadership) hurry(workerID int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.a.clock.Now()
	for _, h := range l.holders[workerID] {
		h.due = now
	}
}

// Pools implements httpapi.Service.
func (a *Arbiter) Pools(ctx context.Context) (gavelapi.PoolList, error) {
	list := gavelapi.PoolList{Pools: []gavelapi.Pool{}}
	rows, err := a.q.ListPools(ctx, a.db.Pool)
	if err != nil {
		return list, unavailable(err, "list pools")
	}
	for _, r := range rows {
		list.Pools = append(list.Pools, gavelapi.Pool{Name: r.Name, Rank: int(r.Rank), Note: r.Note, Workers: int(r.Workers)})
	}
	return list, nil
}

// SetPool implements httpapi.Service.
func (a *Arbiter) SetPool(ctx context.Context, p auth.Principal, name string, s gavelapi.PoolSettings) (gavelapi.Pool, error) {
	if !validName.MatchString(name) {
		return gavelapi.Pool{}, apperr.New(apperr.Invalid, "use letters, digits, dot, dash and underscore, at most 64", "this cannot be a pool's name").At("path.name")
	}
	err := a.carryOut(ctx, p, deed{action: "pool.set", subject: name, reason: cmp.Or(s.Reason, s.Note), details: s, do: func(tx pgx.Tx) error {
		return a.q.SetPool(ctx, tx, &storedb.SetPoolParams{Name: name, Rank: int32(s.Rank), Note: s.Note})
	}})
	if err != nil {
		return gavelapi.Pool{}, err
	}
	list, err := a.Pools(ctx)
	if err != nil {
		return gavelapi.Pool{}, err
	}
	return list.Pools[slices.IndexFunc(list.Pools, func(p gavelapi.Pool) bool { return p.Name == name })], nil
}

// Queue implements httpapi.Service.
func (a *Arbiter) Queue(ctx context.Context) (gavelapi.Queue, error) {
	q := gavelapi.Queue{Waiting: []gavelapi.QueueCount{}, Brakes: []gavelapi.Brake{}}
	brakes, err := a.q.ListBrakes(ctx, a.db.Pool)
	if err != nil {
		return q, unavailable(err, "list brakes")
	}
	for _, b := range brakes {
		q.Brakes = append(q.Brakes, gavelapi.Brake{Kind: b.Kind, Name: b.Name, Reason: b.Reason, Since: utc(&b.CreatedAt)})
	}
	if l := a.current.Load(); l != nil {
		q.Leader = true
		l.mu.Lock()
		q.Waiting = append(q.Waiting, l.liveQueue()...)
		l.mu.Unlock()
		return q, nil
	}
	return q, a.storedQueue(ctx, &q)
}

// SetBrake implements httpapi.Service.
func (a *Arbiter) SetBrake(ctx context.Context, p auth.Principal, b gavelapi.Brake) error {
	by := p.TokenID
	params := storedb.SetBrakeParams{Kind: b.Kind, Name: b.Name, Reason: b.Reason, CreatedBy: &by}
	switch b.Kind {
	case "lane":
		if lane, ok := dispatch.ParseLane(b.Name); !ok || lane == dispatch.Probe {
			return apperr.New(apperr.Invalid, "the lanes are run, judge, prepare and rejudge", "there is no such lane").At("body.name")
		}
	case "language":
		if _, ok := a.cfg.Languages.Get(b.Name); !ok {
			return apperr.New(apperr.Invalid, "gavel language list shows the known ones", "there is no language %q", b.Name).At("body.name")
		}
	case "problem":
		row, err := a.problemRow(ctx, b.Name)
		if err != nil {
			return err
		}
		params.ProblemID = &row.ID
	default:
		return apperr.New(apperr.Invalid, "use lane, language or problem", "this cannot have a brake").At("body.kind")
	}
	return a.carryOut(ctx, p, deed{action: "queue.pause", subject: b.Kind + " " + b.Name, reason: b.Reason, do: func(tx pgx.Tx) error {
		return a.q.SetBrake(ctx, tx, &params)
	}})
}

// ReleaseBrake implements httpapi.Service.
func (a *Arbiter) ReleaseBrake(ctx context.Context, p auth.Principal, kind, name, reason string) error {
	return a.carryOut(ctx, p, deed{action: "queue.resume", subject: kind + " " + name, reason: reason, do: func(tx pgx.Tx) error {
		n, err := a.q.ReleaseBrake(ctx, tx, &storedb.ReleaseBrakeParams{Kind: kind, Name: name})
		return found(n, err, apperr.New(apperr.NotFound, "gavel queue show lists the brakes", "the %s %q is not held", kind, name))
	}})
}

// BumpSubmission implements httpapi.Service.
func (a *Arbiter) BumpSubmission(ctx context.Context, p auth.Principal, id int64, reason string) (gavelapi.Submission, error) {
	if _, err := a.readSubmission(ctx, id); err != nil {
		return gavelapi.Submission{}, err
	}
	err := a.carryOut(ctx, p, deed{action: "queue.bump", subject: fmt.Sprint(id), reason: reason, do: func(tx pgx.Tx) error {
		n, err := a.q.BumpSubmission(ctx, tx, id)
		return found(n, err, apperr.New(apperr.Conflict, "only what waits can be put in front", "submission %d does not wait", id))
	}})
	if err != nil {
		return gavelapi.Submission{}, err
	}
	return a.Submission(ctx, id, 0)
}

// Audit implements httpapi.Service.
func (a *Arbiter) Audit(ctx context.Context, subject, cursor string, limit int) (gavelapi.AuditList, error) {
	list := gavelapi.AuditList{Entries: []gavelapi.AuditEntry{}}
	before, err := readCursor(cursor, math.MaxInt64)
	if err != nil {
		return list, err
	}
	rows, err := a.q.ListAudit(ctx, a.db.Pool, &storedb.ListAuditParams{Before: before, Subject: subject, Page: int32(limit) + 1})
	if err != nil {
		return list, unavailable(err, "list the audit trail")
	}
	if len(rows) > limit {
		rows = rows[:limit]
		list.Next = writeCursor(rows[limit-1].ID)
	}
	for _, r := range rows {
		list.Entries = append(list.Entries, gavelapi.AuditEntry{
			ID: r.ID, At: r.At.UTC(), TokenID: r.TokenID, Token: r.TokenNote, Action: r.Action, Subject: r.Subject, Reason: r.Reason, Details: r.Details,
		})
	}
	return list, nil
}

// paced notes how long a lease lasted that ended with a result: a moving mean
// for estimates. Needs l.mu.
func (l *leadership) paced(lasted time.Duration) {
	const weight = 0.1
	if l.pace == 0 {
		l.pace = lasted
		return
	}
	l.pace += time.Duration(weight * float64(lasted-l.pace))
}
