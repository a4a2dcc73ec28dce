package arbiter

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/alarm"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/auth"
	"github.com/gavel-oj/gavel/internal/dispatch"
	"github.com/gavel-oj/gavel/internal/health"
	"github.com/gavel-oj/gavel/internal/lease"
	"github.com/gavel-oj/gavel/internal/report"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

type resultInput struct {
	jobID, workerID int64
	token           uuid.UUID
	report          *gavelapi.Report
}

// Result implements httpapi.Service. Recording does not ask who leads: the
// token alone decides (I2), so a result is never refused because of a change
// of leader that it survived.
func (a *Arbiter) Result(ctx context.Context, p auth.Principal, req gavelapi.ResultRequest) (gavelapi.ResultResponse, error) {
	var none gavelapi.ResultResponse
	l, err := a.leading()
	if err != nil {
		return none, err
	}
	h, err := a.findLease(ctx, l, p, req.LeaseToken)
	if apperr.CodeOf(err) == apperr.Gone {
		return gavelapi.ResultResponse{Outcome: gavelapi.OutcomeDiscarded, Reason: gavelapi.LeaseUnknown}, nil
	}
	if err != nil {
		return none, err
	}
	l.seen(p.WorkerID)
	report := report.Tidy(h.kind, req.Report)
	if h.outcome == lease.Running {
		contradiction, err := a.compare(ctx, p, h, &report)
		if err != nil {
			return none, err
		}
		recorded, err := a.record(ctx, l, p, h, &report)
		if err != nil {
			return none, unavailable(err, "record a result")
		}
		if recorded {
			a.count.result(h.kind, report.Fault)
			return gavelapi.ResultResponse{Outcome: gavelapi.OutcomeRecorded, Reason: contradiction, Directives: l.directives(p.WorkerID)}, nil
		}
		l.forget(h.token)
		if h, err = a.findAttempt(ctx, p, h.token); err != nil {
			return none, err
		}
	}
	return a.answerDead(ctx, l, p, h, &report)
}

// answerDead answers a report whose lease is not live: the same answer as the
// first time when it was recorded, else discarded and kept as evidence.
func (a *Arbiter) answerDead(ctx context.Context, l *leadership, p auth.Principal, h foundLease, report *gavelapi.Report) (gavelapi.ResultResponse, error) {
	switch h.outcome {
	case lease.Completed, lease.Failed:
		return gavelapi.ResultResponse{Outcome: gavelapi.OutcomeAlreadyRecorded}, nil
	case lease.Running:
		n, err := a.q.CloseOrphan(ctx, a.db.Pool, h.token)
		if err != nil {
			return gavelapi.ResultResponse{}, unavailable(err, "look why a lease is not live")
		}
		if n == 0 {
			// Not matched and yet not ended: its job changed hands between the two
			// looks. The worker repeats the report and gets a settled answer.
			return gavelapi.ResultResponse{}, apperr.New(apperr.Unavailable, "send the same report again", "the lease is changing state")
		}
		h.outcome = lease.WasCancelled
	}
	n, err := a.q.KeepLateReport(ctx, a.db.Pool, &storedb.KeepLateReportParams{Report: mustJSON(evidence(report)), LeaseToken: h.token})
	if err != nil {
		return gavelapi.ResultResponse{}, unavailable(err, "keep a late report")
	}
	if n > 0 {
		a.log.Info("late report discarded", "job_id", h.jobID, "kind", h.kind, "submission_id", h.submissionID, "work_id", h.workID, "verdict", report.Verdict, "lease", string(h.outcome))
		if h.outcome == lease.WasCancelled {
			// Who took the work back knows, and a stop button is no sign of a fault.
			return gavelapi.ResultResponse{Outcome: gavelapi.OutcomeDiscarded, Reason: h.reason()}, nil
		}
		l.happened(alarm.ResultDiscarded, fmt.Sprintf("a report of %s for job %d came after its lease had ended (%s)", p.WorkerName, h.jobID, h.outcome), map[string]any{
			"worker": p.WorkerName, "job_id": h.jobID, "kind": h.kind, "submission_id": h.submissionID, "verdict": report.Verdict, "lease": string(h.outcome),
		})
	}
	return gavelapi.ResultResponse{Outcome: gavelapi.OutcomeDiscarded, Reason: h.reason()}, nil
}

// record writes a report under a live lease; false means that it was not live.
func (a *Arbiter) record(ctx context.Context, l *leadership, p auth.Principal, h foundLease, report *gavelapi.Report) (bool, error) {
	if h.probe {
		return a.recordProbe(ctx, l, p, h, report)
	}
	known := l.lookUp(h)
	if fault := report.Fault; fault != nil {
		return a.recordFault(ctx, l, p, h, report)
	}
	if report.Run != nil {
		return a.recordRun(ctx, l, p, h, report)
	}
	if report.Prepare != nil {
		return a.recordStep(ctx, l, p, h, report)
	}
	ok, err := a.results.call(ctx, resultInput{jobID: h.jobID, workerID: p.WorkerID, token: h.token, report: report})
	if err != nil || !ok {
		return false, err
	}
	l.finish(h.token, h.jobID)
	l.judged(known)
	a.watch.changed(h.subject())
	return true, nil
}

// recordResults is the batch of verdicts.
func (a *Arbiter) recordResults(ctx context.Context, batch []resultInput) ([]bool, error) {
	var params storedb.RecordResultsParams
	order := slices.Clone(batch) // in job order, as every statement that takes several jobs
	slices.SortStableFunc(order, func(x, y resultInput) int { return cmp.Compare(x.jobID, y.jobID) })
	asked := make(map[uuid.UUID]bool, len(batch))
	for _, in := range order {
		if asked[in.token] {
			continue // the same report twice in one batch: the second finds out what became of it
		}
		asked[in.token] = true
		params.JobIds = append(params.JobIds, in.jobID)
		params.LeaseTokens = append(params.LeaseTokens, in.token)
		params.WorkerIds = append(params.WorkerIds, in.workerID)
		params.Verdicts = append(params.Verdicts, in.report.Verdict)
		params.CPUUs = append(params.CPUUs, in.report.CPUUS)
		params.WallUs = append(params.WallUs, in.report.WallUS)
		params.MemoryBytes = append(params.MemoryBytes, in.report.MemoryBytes)
		params.Compiles = append(params.Compiles, mustJSON(in.report.Compile))
		params.Tests = append(params.Tests, mustJSON(in.report.Tests))
		params.Provenances = append(params.Provenances, mustJSON(in.report.Provenance))
		var outputs json.RawMessage // null, when there is nothing to keep
		if len(in.report.Outputs) > 0 {
			outputs = mustJSON(in.report.Outputs)
		}
		params.Outputs = append(params.Outputs, outputs)
	}
	rows, err := a.q.RecordResults(ctx, a.db.Hot, &params)
	if err != nil {
		return nil, fmt.Errorf("record %d results: %w", len(params.JobIds), err)
	}
	won := make(map[uuid.UUID]bool, len(rows))
	for _, r := range rows {
		won[*r.LeaseToken] = true
	}
	out := make([]bool, len(batch))
	for i, in := range batch {
		out[i] = won[in.token]
		delete(won, in.token) // only one of two equal reports recorded it
	}
	return out, nil
}

// recordFault ends an attempt that the system failed: another try below the
// cap, system_error at the cap.
func (a *Arbiter) recordFault(ctx context.Context, l *leadership, p auth.Principal, h foundLease, report *gavelapi.Report) (bool, error) {
	fault, known := report.Fault, l.lookUp(h)
	returned, err := a.q.ReturnFailed(ctx, a.db.Pool, &storedb.ReturnFailedParams{
		JobID: h.jobID, LeaseToken: h.token, WorkerID: p.WorkerID, AttemptCap: int32(a.cfg.Lease.AttemptCap),
		Blame: fault.Blame, Message: fault.Message,
	})
	if err != nil {
		return false, err
	}
	if len(returned) == 1 {
		a.log.Warn("attempt failed", "job_id", h.jobID, "kind", h.kind, "submission_id", h.submissionID, "work_id", h.workID, "worker", p.WorkerName, "blame", fault.Blame, "message", fault.Message)
		l.failed(known, health.Faulted, fault.Blame, fault.Message)
		l.requeue(h.token, h.jobID, returned[0].LeaseGen, p.WorkerID)
		a.watch.changed(h.subject())
		return true, nil
	}
	ended, err := a.q.GiveUpFailed(ctx, a.db.Pool, &storedb.GiveUpFailedParams{
		JobID: h.jobID, LeaseToken: h.token, WorkerID: p.WorkerID, AttemptCap: int32(a.cfg.Lease.AttemptCap),
		Fault: mustJSON(fault), Compile: mustJSON(report.Compile), Provenance: mustJSON(report.Provenance),
		Blame: fault.Blame, Message: fault.Message,
	})
	if err != nil || len(ended) == 0 {
		return false, err
	}
	a.log.Error("system error", "job_id", h.jobID, "kind", h.kind, "submission_id", h.submissionID, "work_id", h.workID, "worker", p.WorkerName, "blame", fault.Blame, "message", fault.Message)
	l.happened(alarm.AttemptCap, fmt.Sprintf("%s is a system error after %d attempts, the last on %s: %s", workOf(h.kind, h.submissionID, h.workID), a.cfg.Lease.AttemptCap, p.WorkerName, fault.Message), map[string]any{
		"job_id": h.jobID, "kind": h.kind, "submission_id": h.submissionID, "worker": p.WorkerName, "blame": fault.Blame, "message": fault.Message,
	})
	l.failed(known, health.Faulted, fault.Blame, fault.Message)
	l.finish(h.token, h.jobID)
	if h.kind == kindPrepare {
		a.stepEnded(ctx, h.workID)
	}
	a.watch.changed(h.subject())
	return true, nil
}

// workOf names what a job is about.
func workOf(kind string, submissionID, workID int64) string {
	if submissionID != 0 {
		return fmt.Sprintf("submission %d", submissionID)
	}
	return fmt.Sprintf("%s %d", kind, workID)
}

// Release implements httpapi.Service.
func (a *Arbiter) Release(ctx context.Context, p auth.Principal, req gavelapi.ReleaseRequest) (gavelapi.ReleaseResponse, error) {
	var none gavelapi.ReleaseResponse
	l, err := a.leading()
	if err != nil {
		return none, err
	}
	h, err := a.findLease(ctx, l, p, req.LeaseToken)
	if apperr.CodeOf(err) == apperr.Gone {
		return gavelapi.ReleaseResponse{Reason: gavelapi.LeaseUnknown}, nil
	}
	if err != nil {
		return none, err
	}
	if req.Reason != "cannot" {
		l.dismiss(p.WorkerID) // before the job is anybody's again
	}
	if h.outcome != lease.Running {
		return gavelapi.ReleaseResponse{Released: h.outcome == lease.Released, Reason: h.reason()}, nil
	}
	rows, err := a.q.ReleaseLease(ctx, a.db.Pool, &storedb.ReleaseLeaseParams{
		JobID: h.jobID, LeaseToken: h.token, WorkerID: p.WorkerID, Reason: req.Reason,
	})
	if err != nil {
		return none, unavailable(err, "hand a lease back")
	}
	if len(rows) == 0 {
		l.forget(h.token)
		if h, err = a.findAttempt(ctx, p, h.token); err != nil {
			return none, err
		}
		return gavelapi.ReleaseResponse{Released: h.outcome == lease.Released, Reason: h.reason()}, nil
	}
	if known := l.lookUp(h); req.Reason == "cannot" && known != nil {
		if known.isProbe() {
			l.probeRefused(ctx, known)
			return gavelapi.ReleaseResponse{Released: true}, nil
		}
		l.failed(known, health.Refused, health.BlameHost, "handed back as one that it cannot do")
	}
	l.requeue(h.token, h.jobID, rows[0].LeaseGen, 0)
	a.watch.changed(h.subject())
	return gavelapi.ReleaseResponse{Released: true}, nil
}

// finish forgets a lease whose job is final.
func (l *leadership) finish(token uuid.UUID, jobID int64) {
	l.mu.Lock()
	h := l.letGo(token)
	if h == nil || h.job.Lane == dispatch.Rejudge {
		l.rejudged.Store(true)
	}
	if h != nil {
		l.paced(l.a.clock.Now().Sub(h.registered))
	}
	delete(l.failedBy, jobID)
	l.board.RemoveJob(jobID)
	l.mu.Unlock()
	l.poke() // a slot is free
}

// requeue puts a job back to the waiting ones; failedBy is the worker that
// failed it, 0 when nobody did.
func (l *leadership) requeue(token uuid.UUID, jobID, gen, failedBy int64) {
	l.mu.Lock()
	h := l.letGo(token)
	if failedBy != 0 {
		l.failedBy[jobID] = append(l.failedBy[jobID], failedBy)
	}
	if h != nil {
		job := h.job
		job.Gen, job.Retried = gen, true
		l.enqueue(job)
	} // else the scan finds it
	l.mu.Unlock()
	l.poke()
}
