package worker

import (
	"context"
	"net/http"
	"time"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
)

// maxServerErrors is how often an arbiter may fail (500) on one old result
// before the others get their turn.
const maxServerErrors = 3

// post reports a result in the background until it is answered or the agent
// ends. The channel closes when it was answered, whatever the answer.
func (w *Worker) post(e entry) <-chan struct{} {
	w.mu.Lock()
	w.pending++
	w.mu.Unlock()
	answered := make(chan struct{})
	w.posts.Go(func() {
		if w.report(w.send, e, 0) {
			close(answered)
		}
		w.mu.Lock()
		w.pending--
		delete(w.unsaved, e.LeaseToken)
		w.mu.Unlock()
	})
	return answered
}

// report tells the arbiter a result, again and again until it answers, and
// then removes it from the outbox. It says whether there was an answer.
// maxErrors > 0 bounds how many 500s in a row are put up with.
func (w *Worker) report(ctx context.Context, e entry, maxErrors int) bool {
	log := w.log.With("job", e.JobID, "gen", e.LeaseGen, "submission", e.SubmissionID)
	pause := client.NewPause(500*time.Millisecond, e.longestPause())
	failures := 0
	for {
		back := w.answersAgain()
		resp, err := w.cfg.Client.Result(ctx, gavelapi.ResultRequest{LeaseToken: e.LeaseToken, Report: e.Report})
		if ctx.Err() != nil && err != nil {
			return false
		}
		w.heard("result", err)
		if err == nil {
			w.settle(e, resp)
			return true
		}
		switch status := client.StatusOf(err); status {
		case http.StatusGone:
			w.settle(e, &gavelapi.ResultResponse{Outcome: gavelapi.OutcomeDiscarded, Reason: goneReason(err)})
			return true
		case http.StatusUnauthorized, http.StatusForbidden, http.StatusUpgradeRequired:
			return false // the agent is ending; the result stays
		case http.StatusInternalServerError:
			if failures++; maxErrors > 0 && failures >= maxErrors {
				return false
			}
		}
		if _, temporary := client.Temporary(err); !temporary {
			log.Error("the arbiter refuses a result for good", "verdict", e.Report.Verdict, "error", err)
			w.outbox.refuse(e.LeaseToken, "refused by the arbiter: "+err.Error())
			w.reportRefusal(ctx, e, err)
			return true
		}
		if w.rest(ctx, pause.Next(err), back) != nil {
			return false
		}
	}
}

// longestPause lets a result be sent several times within the grace of one TTL
// that an arbiter gives to leases when it is back.
func (e entry) longestPause() time.Duration {
	const most = 30 * time.Second
	if e.TTLMS <= 0 {
		return most
	}
	return min(most, time.Duration(e.TTLMS)*time.Millisecond/4)
}

// settle forgets a result that the arbiter has answered.
func (w *Worker) settle(e entry, resp *gavelapi.ResultResponse) {
	log := w.log.With("job", e.JobID, "gen", e.LeaseGen, "submission", e.SubmissionID)
	attrs := []any{"outcome", resp.Outcome, "verdict", e.Report.Verdict}
	if f := e.Report.Fault; f != nil {
		attrs = append(attrs, "blame", f.Blame)
	}
	if resp.Outcome == gavelapi.OutcomeDiscarded {
		log.Warn("result came too late and was discarded", append(attrs, "reason", resp.Reason)...)
	} else if resp.Reason != "" {
		log.Error("the arbiter did not believe this result and recorded a fault of this worker; worker and arbiter may differ in version", append(attrs, "reason", resp.Reason)...)
	} else {
		log.Info("result reported", attrs...)
	}
	w.mu.Lock()
	delete(w.unsaved, e.LeaseToken) // first, see saveAgain
	w.mu.Unlock()
	if err := w.outbox.remove(e.LeaseToken); err != nil {
		log.Warn("answered result cannot be removed from the outbox; it is sent again at the next start", "error", err)
	}
	w.obey(resp.Directives)
}

// reportRefusal lets the job go on at once, as a fault of this attempt, when
// its real result is something that the arbiter does not take.
func (w *Worker) reportRefusal(ctx context.Context, e entry, refused error) {
	if e.Report.Fault != nil {
		return // this was the small one already; the lease expires
	}
	l := gavelapi.Lease{Limits: e.Report.Limits, PackageDigest: e.Report.Provenance.PackageDigest}
	rep := w.faultReport(l, hostFault("the arbiter refused this worker's result; worker and arbiter may differ in version", refused), nil)
	if _, err := w.cfg.Client.Result(ctx, gavelapi.ResultRequest{LeaseToken: e.LeaseToken, Report: rep}); err != nil {
		w.log.Error("the fault cannot be reported either; the lease expires", "job", e.JobID, "error", err)
	}
}

// sendLeftovers reports what a former process finished, before anything new is
// claimed: those results are the oldest, and their leases may still live.
func (w *Worker) sendLeftovers(ctx context.Context, left []entry) {
	for _, e := range left {
		if w.report(ctx, e, maxServerErrors) {
			continue
		}
		if ctx.Err() != nil {
			return
		}
		w.log.Warn("the arbiter fails on an old result; trying it beside new work", "job", e.JobID)
		w.post(e)
	}
}

// release hands a lease back. When that fails, the lease expires by itself.
func (w *Worker) release(l gavelapi.Lease, reason string) {
	ctx, cancel := context.WithTimeout(w.send, lastWords)
	defer cancel()
	pause := client.NewPause(100*time.Millisecond, time.Second)
	resp, err := client.Retry(ctx, pause, func(ctx context.Context) (*gavelapi.ReleaseResponse, error) {
		return w.cfg.Client.Release(ctx, gavelapi.ReleaseRequest{LeaseToken: l.LeaseToken, Reason: reason})
	}, nil)
	log := w.log.With("job", l.JobID, "gen", l.LeaseGen, "submission", l.SubmissionID)
	switch {
	case err != nil:
		log.Warn("lease cannot be handed back; it expires by itself", "error", err)
	case resp.Released:
		log.Info("lease handed back", "reason", reason)
	default:
		log.Info("lease was dead already", "reason", resp.Reason)
	}
}
