package arbiter

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/auth"
	"github.com/gavel-oj/gavel/internal/lease"
	"github.com/gavel-oj/gavel/internal/report"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

type heartbeatInput struct {
	jobID, workerID int64
	token           uuid.UUID
}

// Heartbeat implements httpapi.Service.
func (a *Arbiter) Heartbeat(ctx context.Context, p auth.Principal, req gavelapi.HeartbeatRequest) (gavelapi.HeartbeatResponse, error) {
	var none gavelapi.HeartbeatResponse
	l, err := a.leading()
	if err != nil {
		return none, err
	}
	h, err := a.findLease(ctx, l, p, req.LeaseToken)
	if err != nil {
		return none, err
	}
	if h.outcome != lease.Running {
		return none, h.gone()
	}
	sent := a.clock.Now()
	alive, err := a.heartbeats.call(ctx, heartbeatInput{jobID: h.jobID, workerID: p.WorkerID, token: h.token})
	if err != nil {
		return none, unavailable(err, "extend a lease")
	}
	if !alive {
		l.forget(h.token)
		if h, err = a.findAttempt(ctx, p, h.token); err != nil {
			return none, err
		}
		return none, h.gone()
	}
	progress := req.Progress
	if progress != nil && !report.SaneProgress(progress, a.knownTests(h.packageDigest)) {
		a.log.Warn("progress dropped: its numbers make no sense", "job_id", h.jobID, "worker", p.WorkerName, "tests_done", progress.TestsDone, "tests_total", progress.TestsTotal)
		progress = nil
	}
	l.mu.Lock()
	changed := false
	if kept := l.held[h.token]; kept != nil {
		kept.due = sent.Add(a.cfg.Lease.TTL)
		if progress != nil {
			changed = kept.progress == nil || *kept.progress != *progress
			kept.progress = progress
		}
	}
	l.mu.Unlock()
	l.seen(p.WorkerID)
	if changed {
		a.watch.changed(h.subject())
	}
	return gavelapi.HeartbeatResponse{TTLMS: a.cfg.Lease.TTL.Milliseconds(), Directives: l.directives(p.WorkerID)}, nil
}

// extendLeases is the batch of heartbeats.
func (a *Arbiter) extendLeases(ctx context.Context, batch []heartbeatInput) ([]bool, error) {
	params := storedb.ExtendLeasesParams{Ttl: a.cfg.Lease.TTL}
	order := slices.Clone(batch) // in job order, as every statement that takes several jobs
	slices.SortFunc(order, func(x, y heartbeatInput) int { return cmp.Compare(x.jobID, y.jobID) })
	for _, in := range order {
		params.JobIds = append(params.JobIds, in.jobID)
		params.LeaseTokens = append(params.LeaseTokens, in.token)
		params.WorkerIds = append(params.WorkerIds, in.workerID)
	}
	rows, err := a.q.ExtendLeases(ctx, a.db.Hot, &params)
	if err != nil {
		return nil, fmt.Errorf("extend %d leases: %w", len(batch), err)
	}
	alive := make(map[uuid.UUID]bool, len(rows))
	for _, r := range rows {
		alive[*r.LeaseToken] = true
	}
	out := make([]bool, len(batch))
	for i, in := range batch {
		out[i] = alive[in.token]
	}
	return out, nil
}

// foundLease is a lease by its token, live as far as is known when outcome is
// Running.
type foundLease struct {
	jobID, submissionID, workID int64
	kind                        string
	token                       uuid.UUID
	outcome                     lease.Outcome
	superseded                  bool // of one that was cancelled: by a rejudge
	probe                       bool
	packageDigest               string // "" when memory does not know
}

func (h foundLease) subject() subject { return subjectOf(h.kind, h.submissionID, h.workID) }

// findLease looks a token up: in memory, else among the attempts. A token
// nobody ever had is Gone, that of another worker Forbidden (I9).
func (a *Arbiter) findLease(ctx context.Context, l *leadership, p auth.Principal, text string) (foundLease, error) {
	token, err := uuid.Parse(text)
	if err != nil {
		return foundLease{}, apperr.New(apperr.Invalid, "send the lease_token of a lease", "the lease token is not a UUID").At("body.lease_token")
	}
	l.mu.Lock()
	h := l.held[token]
	l.mu.Unlock()
	if h != nil && h.workerID == p.WorkerID {
		return foundLease{
			jobID: h.jobID, submissionID: h.submissionID, workID: h.workID, kind: h.kind, token: token, outcome: lease.Running,
			probe: h.isProbe(), packageDigest: h.job.Package,
		}, nil
	}
	return a.findAttempt(ctx, p, token)
}

func (a *Arbiter) findAttempt(ctx context.Context, p auth.Principal, token uuid.UUID) (foundLease, error) {
	row, err := a.q.AttemptByToken(ctx, a.db.Pool, token)
	if store.IsNoRows(err) {
		return foundLease{}, apperr.New(apperr.Gone, "drop the work", "no such lease").At(gavelapi.LeaseUnknown)
	}
	if err != nil {
		return foundLease{}, unavailable(err, "look a lease up")
	}
	if row.WorkerID != p.WorkerID {
		return foundLease{}, apperr.New(apperr.Forbidden, "use the token of the worker that holds the lease", "this lease belongs to another worker")
	}
	return foundLease{
		jobID: row.JobID, submissionID: row.SubmissionID, workID: row.WorkID, kind: row.Kind,
		token: token, outcome: lease.Outcome(row.Outcome), superseded: row.Superseded, probe: row.Kind == kindProbe,
	}, nil
}

// reason says to its worker why a lease is dead.
func (h foundLease) reason() string {
	if h.superseded {
		return gavelapi.LeaseSuperseded
	}
	return lease.EndReason(h.outcome)
}

func (h foundLease) gone() error {
	reason := h.reason()
	return apperr.New(apperr.Gone, "kill the run and drop the work", "the lease is dead: %s", reason).At(reason)
}

// forget drops a lease from memory when the row says that it is not live.
func (l *leadership) forget(token uuid.UUID) {
	l.mu.Lock()
	l.letGo(token)
	l.mu.Unlock()
	l.poke() // a slot is free
}
