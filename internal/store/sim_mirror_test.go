package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/internal/lease"
	"github.com/gavel-oj/gavel/internal/sim"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// do runs one statement and returns its rows in the model's words.
func (m *mirror) do(s sim.Statement) any {
	m.t.Helper()
	ctx := m.t.Context()
	out, err := m.statement(ctx, s)
	if err != nil {
		m.t.Fatalf("history %d: %T %+v: %v", m.history, s, s, err)
	}
	return out
}

// convert makes the model's rows of the tables', keeping nil for none.
func convert[R, M any](rows []R, err error, one func(R) M) ([]M, error) {
	var out []M
	for _, r := range rows {
		out = append(out, one(r))
	}
	return out, err
}

func (m *mirror) statement(ctx context.Context, s sim.Statement) (any, error) {
	q, c := m.db.Q, m.conn
	granted := func(r *storedb.HeldLeasesRow) sim.Granted {
		return sim.Granted{Job: m.modelJob(r.JobID), Gen: r.LeaseGen, Token: sim.Token(number(r.LeaseToken)), Attempts: int(r.Attempts)}
	}
	switch s := s.(type) {
	case sim.Submit:
		n := len(m.jobs) + 1
		err := m.submit(ctx, s, n%3)
		return int64(n), err
	case *sim.GrantLeases:
		p := storedb.GrantLeasesParams{Confirm: s.Confirm, Term: s.Term}
		for _, in := range s.Inputs {
			p.JobIds, p.LeaseGens = append(p.JobIds, m.job(in.Job)), append(p.LeaseGens, in.Gen)
			p.LeaseTokens, p.WorkerIds = append(p.LeaseTokens, m.leaseToken(in.Token)), append(p.WorkerIds, m.worker(in.Worker))
			p.Sessions, p.RequestIds = append(p.Sessions, m.uuid('s', int64(in.Session))), append(p.RequestIds, m.uuid('r', int64(in.Request)))
		}
		rows, err := q.GrantLeases(ctx, c, &p)
		return convert(rows, err, func(r *storedb.GrantLeasesRow) sim.Granted { return granted((*storedb.HeldLeasesRow)(r)) })
	case *sim.HeldLeases:
		p := storedb.HeldLeasesParams{Confirm: s.Confirm, WorkerID: m.worker(s.Worker), RequestID: m.uuid('r', int64(s.Request)), Term: s.Term}
		for _, j := range s.Jobs {
			p.JobIds = append(p.JobIds, m.job(j))
		}
		rows, err := q.HeldLeases(ctx, c, &p)
		return convert(rows, err, granted)
	case *sim.ExtendLeases:
		p := storedb.ExtendLeasesParams{Ttl: s.TTL}
		for _, in := range s.Inputs {
			p.JobIds, p.LeaseTokens, p.WorkerIds = append(p.JobIds, m.job(in.Job)), append(p.LeaseTokens, m.leaseToken(in.Token)), append(p.WorkerIds, m.worker(in.Worker))
		}
		rows, err := q.ExtendLeases(ctx, c, &p)
		return convert(rows, err, func(r *storedb.ExtendLeasesRow) sim.Holder {
			return sim.Holder{Job: m.modelJob(r.JobID), Token: sim.Token(number(r.LeaseToken)), Worker: s.Inputs[0].Worker}
		})
	case *sim.RecordResults:
		in := s.Inputs[0] // the simulation reports one at a time
		rows, err := q.RecordResults(ctx, c, result(m.job(in.Job), m.leaseToken(in.Token), m.worker(in.Worker), in.Verdict))
		for _, r := range rows {
			if r.Judgings != int64(len(rows)) || r.Attempts != int64(len(rows)) {
				m.t.Errorf("recorded %d judgings and %d attempts of %d results", r.Judgings, r.Attempts, len(rows))
			}
		}
		return convert(rows, err, func(r *storedb.RecordResultsRow) sim.Holder { return in.Holder })
	case *sim.ReturnFailed:
		rows, err := q.ReturnFailed(ctx, c, &storedb.ReturnFailedParams{JobID: m.job(s.Job), LeaseToken: m.leaseToken(s.Token), WorkerID: m.worker(s.Worker), AttemptCap: int32(s.AttemptCap)})
		return convert(rows, err, func(r *storedb.ReturnFailedRow) sim.Returned {
			return sim.Returned{Job: m.modelJob(r.JobID), Gen: r.LeaseGen}
		})
	case *sim.GiveUpFailed:
		rows, err := q.GiveUpFailed(ctx, c, &storedb.GiveUpFailedParams{JobID: m.job(s.Job), LeaseToken: m.leaseToken(s.Token), WorkerID: m.worker(s.Worker), AttemptCap: int32(s.AttemptCap), Fault: m.limits})
		return convert(rows, err, func(r *storedb.GiveUpFailedRow) int64 { return m.modelJob(r.JobID) })
	case *sim.ReleaseLease:
		rows, err := q.ReleaseLease(ctx, c, &storedb.ReleaseLeaseParams{JobID: m.job(s.Job), LeaseToken: m.leaseToken(s.Token), WorkerID: m.worker(s.Worker)})
		return convert(rows, err, func(r *storedb.ReleaseLeaseRow) sim.Returned {
			return sim.Returned{Job: m.modelJob(r.JobID), Gen: r.LeaseGen}
		})
	case *sim.Reclaim:
		return m.reclaim(ctx, s)
	case sim.CancelOpenJob:
		if s.Job > int64(len(m.jobs)) {
			return false, nil
		}
		rows, err := q.CancelOpenJob(ctx, c, &storedb.CancelOpenJobParams{SubmissionID: m.subs[s.Job-1], JobID: m.job(s.Job)})
		return len(rows) == 1, err
	case *sim.ExpireSession:
		n, err := q.ExpireSession(ctx, c, &storedb.ExpireSessionParams{WorkerID: m.worker(s.Worker), Session: m.uuid('s', int64(s.Session)), Term: s.Term})
		return int(n), err
	case sim.PendingJobs:
		rows, err := m.pending(ctx)
		return convert(rows, err, func(r *storedb.Job) sim.Row {
			return sim.Row{ID: m.modelJob(r.ID), Job: lease.Job{State: lease.Pending, Gen: r.LeaseGen, Attempts: int(r.Attempts)}, Language: r.Language}
		})
	case sim.LeasedJobs:
		now := m.model.Now
		rows, err := q.LeasedJobs(ctx, c)
		return convert(rows, err, func(row *storedb.LeasedJobsRow) sim.Row {
			left := time.Duration(row.LeftS * float64(time.Second)).Round(time.Microsecond)
			r := &row.Job
			return sim.Row{
				ID: m.modelJob(r.ID), Job: lease.Job{State: lease.Leased, Gen: r.LeaseGen, Attempts: int(r.Attempts), Confirmed: r.Confirmed}, Language: r.Language,
				Token: sim.Token(number(r.LeaseToken)), ExpiresAt: now + left, Worker: m.modelWorker(r.WorkerID), Session: sim.Session(number(r.Session)), Request: sim.Request(number(r.RequestID)),
			}
		})
	case sim.FailedAttemptsOfOpenJobs:
		rows, err := q.FailedAttemptsOfOpenJobs(ctx, c)
		return convert(rows, err, func(r *storedb.FailedAttemptsOfOpenJobsRow) sim.Failure {
			return sim.Failure{Job: m.modelJob(r.JobID), Worker: m.modelWorker(&r.WorkerID)}
		})
	case sim.AttemptByToken:
		r, err := q.AttemptByToken(ctx, c, m.leaseToken(s.Token))
		if store.IsNoRows(err) {
			return sim.Attempt{}, nil
		}
		return sim.Attempt{Job: m.modelJob(r.JobID), Gen: r.LeaseGen, Worker: m.modelWorker(&r.WorkerID), Outcome: lease.Outcome(r.Outcome)}, err
	case sim.KeepLateReport:
		raw, _ := json.Marshal(s.Verdict)
		n, err := q.KeepLateReport(ctx, c, &storedb.KeepLateReportParams{Report: raw, LeaseToken: m.leaseToken(s.Token)})
		return n == 1, err
	case sim.PackageLeasedTo:
		return q.PackageLeasedTo(ctx, c, &storedb.PackageLeasedToParams{WorkerID: m.worker(s.Worker), Digest: m.digests[s.Package]})
	case sim.TakeOver:
		return store.TakeOver(ctx, c.Conn(), q, storedb.TakeLeadershipParams{Holder: s.Holder, Valid: s.Valid}, s.TTL)
	case sim.RenewLeadership:
		n, err := q.RenewLeadership(ctx, c, &storedb.RenewLeadershipParams{Term: s.Term, Holder: s.Holder, Valid: s.Valid})
		if s.Valid == 0 {
			n, err = q.ResignLeadership(ctx, c, &storedb.ResignLeadershipParams{Term: s.Term, Holder: s.Holder})
		}
		return n == 1, err
	case sim.ReadLeadership:
		r, err := q.ReadLeadership(ctx, c, 0)
		return r.Expired, err
	}
	return nil, fmt.Errorf("the mirror does not know %T", s)
}

// pending reads the waiting jobs both ways: as a rebuild of memory does, and as
// a scan that knows none of them.
func (m *mirror) pending(ctx context.Context) ([]*storedb.Job, error) {
	all, err := m.db.Q.PendingJobs(ctx, m.conn)
	if err != nil {
		return nil, err
	}
	keys, err := m.db.Q.PendingJobKeys(ctx, m.conn)
	if err != nil {
		return nil, err
	}
	ids := make([]int64, len(keys))
	for i, k := range keys {
		ids[i] = k.ID
	}
	scanned, err := m.db.Q.PendingJobsOf(ctx, m.conn, ids)
	if err == nil && !slices.EqualFunc(all, scanned, func(x *storedb.PendingJobsRow, y *storedb.Job) bool {
		return x.ID == y.ID && x.LeaseGen == y.LeaseGen && x.Language == y.Language
	}) {
		err = fmt.Errorf("a rebuild reads %d waiting jobs, a scan %d, or others", len(all), len(scanned))
	}
	return scanned, err
}

func (m *mirror) submit(ctx context.Context, s sim.Submit, pkg int) error {
	done, err := m.db.Submit(ctx, store.NewSubmission{
		Submission: storedb.InsertSubmissionParams{
			ProblemID: m.problems[pkg], Language: s.Language, SourceBytes: 1, StopRule: "first", Source: []byte("x"),
			PackageDigest: m.digests[pkg], Limits: m.limits, Lane: "judge", TokenID: m.token,
		},
	})
	m.jobs, m.subs = append(m.jobs, done.JobID), append(m.subs, done.SubmissionID)
	return err
}

func (m *mirror) reclaim(ctx context.Context, s *sim.Reclaim) (any, error) {
	// As store.Reclaim, on the session with the simulated clock.
	var out sim.Reclaimed
	err := pgx.BeginFunc(ctx, m.conn, func(tx pgx.Tx) error {
		rows, err := m.db.Q.RequeueExpired(ctx, tx, &storedb.RequeueExpiredParams{AttemptCap: int32(s.AttemptCap), Term: s.Term})
		if err != nil {
			return err
		}
		for _, r := range rows {
			out.Requeued = append(out.Requeued, sim.Requeued{Job: m.modelJob(r.JobID), Gen: r.LeaseGen, Confirmed: r.Confirmed})
		}
		ended, err := m.db.Q.GiveUpExpired(ctx, tx, &storedb.GiveUpExpiredParams{AttemptCap: int32(s.AttemptCap), Term: s.Term, Fault: m.limits})
		for _, r := range ended {
			out.Ended = append(out.Ended, m.modelJob(r.JobID))
		}
		return err
	})
	return out, err
}
