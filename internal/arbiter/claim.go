package arbiter

import (
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/auth"
	"github.com/gavel-oj/gavel/internal/dispatch"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// waiter is a claim that waits for work. Its fields are guarded by the
// leadership's lock, but for done and what is set before it is closed.
type waiter struct {
	id       int64 // number of the claim, in the order of arrival
	workerID int64
	session  uuid.UUID
	request  uuid.UUID
	slots    int // asked for
	inFlight int // grants being committed for it
	since    time.Time
	callers  int // HTTP requests that wait for it: a retry joins its first try

	done   chan struct{}
	leases []gavelapi.Lease
	err    error
}

// answer ends a waiter. Needs l.mu.
func (l *leadership) answer(w *waiter, leases []gavelapi.Lease, err error) {
	select {
	case <-w.done:
		return // answered already
	default:
	}
	w.leases, w.err = leases, err
	close(w.done)
	delete(l.waiters, w.id)
	// A new slice: whoever answers all of a worker's claims is just going through the old one.
	rest := slices.DeleteFunc(slices.Clone(l.waitersOf[w.workerID]), func(o *waiter) bool { return o == w })
	if l.waitersOf[w.workerID] = rest; len(rest) == 0 {
		delete(l.waitersOf, w.workerID)
	}
	l.board.RemoveClaim(w.id, l.a.clock.Now())
}

// Claim implements httpapi.Service.
func (a *Arbiter) Claim(ctx context.Context, p auth.Principal, req gavelapi.ClaimRequest) (gavelapi.ClaimResponse, error) {
	var none gavelapi.ClaimResponse
	l, err := a.leading()
	if err != nil {
		return none, err
	}
	session, err := uuid.Parse(req.Session)
	if err != nil {
		return none, apperr.New(apperr.Invalid, "send a UUID", "the session is not a UUID").At("body.session")
	}
	request, err := uuid.Parse(req.RequestID)
	if err != nil {
		return none, apperr.New(apperr.Invalid, "send a UUID", "the request id is not a UUID").At("body.request_id")
	}
	dead, err := l.admit(p, session, req)
	if err != nil {
		return none, err
	}
	if dead != uuid.Nil {
		if err := l.expireSession(ctx, p.WorkerID, dead); err != nil {
			return none, unavailable(err, "end the leases of the previous session")
		}
	}
	again, err := l.replay(ctx, p.WorkerID, request)
	if again != nil || err != nil {
		return gavelapi.ClaimResponse{Leases: again}, err
	}
	w := l.join(p, session, request, req)
	wait := min(time.Duration(req.WaitMS)*time.Millisecond, a.cfg.Lease.ClaimWait)
	select {
	case <-w.done:
	case <-a.clock.After(wait):
		l.leave(ctx, w)
	case <-ctx.Done():
		l.leave(ctx, w)
	case <-l.over:
		return none, apperr.New(apperr.Unavailable, "try again in a second", "this arbiter stopped leading")
	}
	select {
	case <-w.done:
		if w.err != nil {
			return none, w.err
		}
		return gavelapi.ClaimResponse{Leases: w.leases, Directives: l.directives(p.WorkerID)}, nil
	default: // the caller is gone while a grant is being committed
		return none, context.Cause(ctx)
	}
}

// admit notes who calls and decides about sessions: a worker has one. A new
// process of it follows when it names the session it succeeds, or when that
// one has been silent; dead is then the session whose leases are void, Nil if
// there is none. Another live session is refused.
func (l *leadership) admit(p auth.Principal, session uuid.UUID, req gavelapi.ClaimRequest) (dead uuid.UUID, err error) {
	now := l.a.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.presence[p.WorkerID]
	if known == nil {
		// In this term nobody has spoken for the worker yet: what it says of its
		// own past is all there is, and its predecessor may have died together
		// with the leader before this one.
		if previous, err := uuid.Parse(req.PreviousSession); err == nil && previous != session {
			dead = previous
		}
	}
	if known != nil && known.session != session {
		succeeds := known.session != uuid.Nil && req.PreviousSession == known.session.String()
		if !succeeds && l.isOnline(p.WorkerID, now) {
			return uuid.Nil, apperr.New(apperr.Conflict,
				"stop the other process of this worker, or enrol this machine as a worker of its own",
				"another live session of worker %s is claiming", p.WorkerName)
		}
		if succeeds {
			dead = known.session
		}
		for _, w := range l.waitersOf[p.WorkerID] {
			l.answer(w, nil, apperr.New(apperr.Conflict, "this process was replaced; stop it", "a newer session of worker %s claims", p.WorkerName))
		}
	}
	news := known == nil || known.session != session || known.slots != req.TotalSlots ||
		!reflect.DeepEqual(known.caps, req.Capabilities)
	l.presence[p.WorkerID] = &presence{
		name: p.WorkerName, session: session, slots: req.TotalSlots, caps: req.Capabilities, cached: req.Cached, seenAt: now,
		dirty: true, changed: news || known.changed,
	}
	if news {
		l.joined(p.WorkerID, session.String(), req.Capabilities, now)
	}
	l.enlist(p.WorkerID, now)
	return dead, nil
}

// seen notes a sign of life outside claims.
func (l *leadership) seen(workerID int64) {
	now := l.a.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.presence[workerID]; p != nil {
		p.seenAt, p.dirty = now, true
	}
}

// replay answers a repeated request_id with the leases granted to it that are
// still held. nil means that the id is new.
func (l *leadership) replay(ctx context.Context, workerID int64, request uuid.UUID) ([]gavelapi.Lease, error) {
	l.mu.Lock()
	var jobs []int64
	for job, h := range l.holders[workerID] {
		if h.request == request {
			jobs = append(jobs, job)
		}
	}
	l.mu.Unlock()
	if jobs == nil {
		return nil, nil
	}
	rows, err := l.a.q.HeldLeases(ctx, l.a.db.Pool, &storedb.HeldLeasesParams{
		Confirm: l.a.cfg.Lease.Confirm, JobIds: jobs, WorkerID: workerID, RequestID: request, Shard: shard, Term: l.term,
	})
	if err != nil {
		return nil, unavailable(err, "repeat a grant")
	}
	granted := make([]*storedb.GrantLeasesRow, len(rows))
	for i, r := range rows {
		granted[i] = (*storedb.GrantLeasesRow)(r)
	}
	more := l.payloads(ctx, granted)
	leases, size := []gavelapi.Lease{}, 0 // not nil: the id was used, even if nothing is left of it
	for _, r := range granted {
		lease, ok := l.a.leaseFor(r, *r.LeaseToken, more)
		if size += payloadBytes(lease); !ok || size > maxClaimPayload {
			continue
		}
		leases = append(leases, lease)
	}
	return leases, nil
}

// join makes the claim wait, or lets a retry share its first try's place.
func (l *leadership) join(p auth.Principal, session, request uuid.UUID, req gavelapi.ClaimRequest) *waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.waitersOf[p.WorkerID] {
		if w.request == request {
			w.callers++
			return w
		}
	}
	l.claims++
	w := &waiter{
		id: l.claims, workerID: p.WorkerID, session: session, request: request,
		slots: req.Slots, since: l.a.clock.Now(), callers: 1, done: make(chan struct{}),
	}
	l.waiters[w.id] = w
	l.waitersOf[w.workerID] = append(l.waitersOf[w.workerID], w)
	l.board.AddClaim(dispatch.Claim{ID: w.id, Worker: w.workerID, Slots: w.slots}, l.a.clock.Now())
	l.poke()
	return w
}

// leave gives up waiting. A claim for which a grant is just being committed
// takes it: if nobody is there to receive it, the lease is not confirmed and
// comes back by itself.
func (l *leadership) leave(ctx context.Context, w *waiter) {
	l.mu.Lock()
	w.callers--
	if w.callers == 0 && w.inFlight == 0 {
		l.answer(w, nil, nil)
	}
	inFlight := w.inFlight > 0
	l.mu.Unlock()
	if inFlight {
		select {
		case <-w.done:
		case <-ctx.Done():
		case <-l.over:
		}
	}
}

// dismiss sends away the waiting claims of a worker that is stopping: what it
// hands back must not be granted to its own closing connection.
func (l *leadership) dismiss(workerID int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sendAway(workerID)
}

// sendAway answers the waiting claims of a worker, but for those that are just
// getting something, with nothing. Needs l.mu.
func (l *leadership) sendAway(workerID int64) {
	for _, w := range l.waitersOf[workerID] {
		if w.inFlight == 0 {
			l.answer(w, nil, nil)
		}
	}
}

// expireSession voids the leases of a session whose successor has shown up:
// the process that held them is gone and its outbox has been sent. They are
// reclaimed as any expired lease, at once instead of at their time.
func (l *leadership) expireSession(ctx context.Context, workerID int64, session uuid.UUID) error {
	n, err := l.a.q.ExpireSession(ctx, l.a.db.Pool, &storedb.ExpireSessionParams{
		WorkerID: workerID, Session: session, Shard: shard, Term: l.term,
	})
	if err != nil || n == 0 {
		return err
	}
	l.a.log.Info("leases of a dead session end early", "worker_id", workerID, "leases", n)
	return l.reclaim(ctx)
}
