package arbiter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/auth"
	"github.com/gavel-oj/gavel/internal/httpapi"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

func wireLimits(l language.Limits) gavelapi.Limits {
	return gavelapi.Limits{
		CPUUS: l.CPU.Microseconds(), WallUS: l.Wall.Microseconds(),
		MemoryBytes: l.MemoryBytes, OutputBytes: l.OutputBytes, Processes: l.Processes,
	}
}

// recheckEvery bounds how stale a waiting reader can be when a change was made
// by another arbiter, which this one's watchers do not hear of.
const recheckEvery = 5 * time.Second

// Submission implements httpapi.Service.
func (a *Arbiter) Submission(ctx context.Context, id int64, wait time.Duration) (gavelapi.Submission, error) {
	changed, stop := a.watch.on(submission(id))
	defer stop()
	sub, err := a.readSubmission(ctx, id)
	if err != nil || wait <= 0 || gavelapi.Final(sub.State) {
		return sub, err
	}
	return awaitChange(ctx, a, sub, changed, wait,
		func() (gavelapi.Submission, error) { return a.readSubmission(ctx, id) },
		func(now gavelapi.Submission) bool {
			return now.State != sub.State || !sameProgress(now.Progress, sub.Progress)
		})
}

// awaitChange reads again, when told of a change and now and then without, until
// something has changed or the wait is over.
func awaitChange[T any](ctx context.Context, a *Arbiter, first T, changed <-chan struct{}, wait time.Duration, read func() (T, error), different func(T) bool) (T, error) {
	now := first
	deadline := a.clock.After(wait)
	for {
		select {
		case <-changed:
		case <-a.clock.After(recheckEvery):
		case <-deadline:
			return now, nil
		case <-a.stopping:
			return now, apperr.New(apperr.Unavailable, "ask again in a second, here or at another arbiter", "this arbiter is stopping")
		case <-ctx.Done():
			return now, context.Cause(ctx)
		}
		var err error
		if now, err = read(); err != nil || different(now) {
			return now, err
		}
	}
}

func sameProgress(x, y *gavelapi.Progress) bool {
	if x == nil || y == nil {
		return x == y
	}
	return *x == *y
}

func (a *Arbiter) readSubmission(ctx context.Context, id int64) (gavelapi.Submission, error) {
	r, err := a.q.SubmissionByID(ctx, a.db.Pool, id)
	if store.IsNoRows(err) {
		return gavelapi.Submission{}, noSubmission(id)
	}
	if err != nil {
		return gavelapi.Submission{}, unavailable(err, "read a submission")
	}
	attempts, err := a.q.AttemptsOfSubmission(ctx, a.db.Pool, id)
	if err != nil {
		return gavelapi.Submission{}, unavailable(err, "read attempts")
	}
	judgings, err := a.q.JudgingsOfSubmission(ctx, a.db.Pool, id)
	if err != nil {
		return gavelapi.Submission{}, unavailable(err, "read judgings")
	}
	sub := gavelapi.Submission{
		ID: r.ID, Problem: r.Problem, PackageDigest: r.PackageDigest, Language: r.Language, User: r.Submitter,
		SourceName: r.SourceName, SourceBytes: r.SourceBytes, SourceFiles: int(r.SourceFiles), State: r.State, Verdict: r.Verdict,
		CPUUS: r.CPUUs, WallUS: r.WallUs, MemoryBytes: r.MemoryBytes, Worker: knownAs(r.Worker),
		CreatedAt: r.CreatedAt.UTC(), FinishedAt: utc(r.FinishedAt), Rejudging: r.Rejudging,
	}
	detail := &gavelapi.SubmissionDetail{
		JudgingID: r.JudgingID, Tests: []gavelapi.TestResult{}, Attempts: make([]gavelapi.Attempt, len(attempts)),
		Judgings: make([]gavelapi.JudgingInfo, len(judgings)),
	}
	for i, g := range judgings {
		detail.Judgings[i] = judgingInfo(g, r.JudgingID)
	}
	sub.Detail = detail
	if sub.State == gavelapi.StateSystemError {
		sub.Verdict = "SE"
	}
	detail.Unreadable = readStored(fmt.Sprintf("judging %d", r.JudgingID), "judge the submission again: gavel rejudge",
		stored{"limits", r.Limits, &detail.Limits}, stored{"compile", r.Compile, &detail.Compile}, stored{"tests", r.Tests, &detail.Tests},
		stored{"provenance", r.Provenance, &detail.Provenance}, stored{"fault", r.Fault, &sub.Fault})
	if detail.Tests == nil {
		detail.Tests = []gavelapi.TestResult{}
	}
	for i, t := range attempts {
		detail.Attempts[i] = wireAttempt(t)
	}
	if !gavelapi.Final(sub.State) {
		sub.Waiting, sub.Progress = a.memoryOf(ctx, sub.State, r.JobID, r.LeaseToken, sub.Worker)
	}
	return sub, nil
}

// SubmissionOutputs implements httpapi.Service.
func (a *Arbiter) SubmissionOutputs(ctx context.Context, id int64) (gavelapi.SubmissionOutputs, error) {
	out := gavelapi.SubmissionOutputs{SubmissionID: id}
	r, err := a.q.OutputsOfSubmission(ctx, a.db.Pool, id)
	if store.IsNoRows(err) {
		return out, noSubmission(id)
	}
	if err != nil {
		return out, unavailable(err, "read outputs of tests")
	}
	out.JudgingID = r.JudgingID
	if err := json.Unmarshal(r.Outputs, &out.Outputs); err != nil {
		return out, fmt.Errorf("stored outputs of judging %d: %w", r.JudgingID, err)
	}
	return out, nil
}

// memoryOf is what only the leader's memory knows of open work: why it waits,
// how far it is. An arbiter that does not lead says of what waits what the
// leader wrote down.
func (a *Arbiter) memoryOf(ctx context.Context, state string, jobID *int64, token *uuid.UUID, worker string) (waiting string, progress *gavelapi.Progress) {
	if jobID == nil {
		return "", nil
	}
	l := a.current.Load()
	if l == nil {
		if state == gavelapi.StatePending {
			_, waiting = a.storedReason(ctx, *jobID)
			return waiting, nil
		}
		return "", nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if state == gavelapi.StatePending {
		now := l.a.clock.Now()
		l.lookRound(now)
		if e, ok := l.board.Why(*jobID, now); ok {
			return l.words(e.Lane, e.Cause, e.Reason), nil
		}
		return "it is being given to a worker", nil
	}
	if token != nil {
		if h := l.held[*token]; h != nil {
			return l.silence(h, worker), h.progress
		}
	}
	return "", nil
}

func wireAttempt(t *storedb.AttemptsOfSubmissionRow) gavelapi.Attempt {
	return gavelapi.Attempt{
		JudgingID: t.JudgingID, LeaseGen: t.LeaseGen, Worker: knownAs(t.Worker), GrantedAt: t.GrantedAt.UTC(),
		EndedAt: utc(t.EndedAt), Outcome: t.Outcome, Blame: t.Blame, Message: t.Message, LateReport: lateVerdict(t.LateReport),
	}
}

// silence says that the holder of a lease has missed some heartbeats: its work
// may be as dead as it is, and goes to another when the lease ends. Needs l.mu.
func (l *leadership) silence(h *held, worker string) string {
	now, settings := l.a.clock.Now(), l.a.cfg.Lease
	heard := h.registered
	if beat := h.due.Add(-settings.TTL); beat.After(heard) {
		heard = beat
	}
	if now.Sub(heard) <= silentBeats*settings.Heartbeat {
		return ""
	}
	return fmt.Sprintf("nothing was heard of %s for %d s; unless it answers, the work is given to a worker again within %d s",
		worker, int(now.Sub(heard).Seconds()), max(1, int(h.due.Sub(now).Seconds())+1))
}

// silentBeats is how many heartbeats may be missing before a reader is told.
const silentBeats = 3

func lateVerdict(raw json.RawMessage) string {
	if raw == nil {
		return ""
	}
	var r gavelapi.Report
	if json.Unmarshal(raw, &r) != nil {
		return "unreadable"
	}
	switch {
	case r.Fault != nil:
		return "fault"
	case r.Run != nil:
		return "run"
	}
	return r.Verdict
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

// Submissions implements httpapi.Service.
func (a *Arbiter) Submissions(ctx context.Context, f httpapi.SubmissionFilter) (gavelapi.SubmissionList, error) {
	var list gavelapi.SubmissionList
	before, err := readCursor(f.Cursor, math.MaxInt64)
	if err != nil {
		return list, err
	}
	optional := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	rows, err := a.q.ListSubmissions(ctx, a.db.Pool, &storedb.ListSubmissionsParams{
		Before: before, Problem: optional(f.Problem), Submitter: optional(f.User), Language: optional(f.Language),
		Verdict: optional(f.Verdict), State: optional(f.State), Page: int32(f.Limit) + 1,
	})
	if err != nil {
		return list, unavailable(err, "list submissions")
	}
	if len(rows) == 0 {
		// Nothing, or a filter that nothing could match: a person who mistyped wants to know which.
		if err := a.knowFilter(ctx, f.Problem, f.Language, "query"); err != nil {
			return list, err
		}
	}
	if len(rows) > f.Limit {
		rows = rows[:f.Limit]
		list.Next = writeCursor(rows[len(rows)-1].ID)
	}
	list.Submissions = make([]gavelapi.Submission, len(rows))
	for i, r := range rows {
		s := gavelapi.Submission{
			ID: r.ID, Problem: r.Problem, PackageDigest: r.PackageDigest, Language: r.Language, User: r.Submitter,
			SourceName: r.SourceName, SourceBytes: r.SourceBytes, SourceFiles: int(r.SourceFiles), State: r.State, Verdict: r.Verdict,
			CPUUS: r.CPUUs, WallUS: r.WallUs, MemoryBytes: r.MemoryBytes, Worker: knownAs(r.Worker),
			CreatedAt: r.CreatedAt.UTC(), FinishedAt: utc(r.FinishedAt),
		}
		if s.State == gavelapi.StateSystemError {
			s.Verdict = "SE"
		}
		if bad := readStored(fmt.Sprintf("submission %d", r.ID), "gavel submission show has the rest", stored{"fault", r.Fault, &s.Fault}); bad != "" {
			s.Fault = &gavelapi.Fault{Blame: gavelapi.BlameHost, Message: bad}
		}
		list.Submissions[i] = s
	}
	return list, nil
}

// knowFilter refuses a filter by a problem or language that does not exist. A
// language that existed once may still have submissions, so its
// absence only matters when there is nothing to show.
func (a *Arbiter) knowFilter(ctx context.Context, problem, lang, where string) error {
	if problem != "" {
		_, err := a.problemRow(ctx, problem)
		if e, ok := errors.AsType[*apperr.Error](err); ok {
			return e.At(where + ".problem")
		}
		if err != nil {
			return err
		}
	}
	if _, ok := a.cfg.Languages.Get(lang); lang != "" && !ok {
		return apperr.New(apperr.NotFound, "gavel language list shows the known ones", "there is no language%s", apperr.Named(lang)).At(where + ".language")
	}
	return nil
}

// CancelSubmission implements httpapi.Service. Repeating it is fine; a
// submission that got its verdict first keeps it.
func (a *Arbiter) CancelSubmission(ctx context.Context, p auth.Principal, id int64, reason string) (gavelapi.Submission, error) {
	sub, err := a.readSubmission(ctx, id)
	if err != nil || sub.State == gavelapi.StateCancelled {
		return sub, err
	}
	if gavelapi.Final(sub.State) { // an open rejudging beside it is cancelled with its rejudge
		return sub, alreadyFinal(sub)
	}
	jobID, err := a.q.OpenJobOfSubmission(ctx, a.db.Pool, id)
	if err != nil && !store.IsNoRows(err) {
		return sub, unavailable(err, "find the job of a submission")
	}
	cancelled, by := false, deed{action: "submission.cancel", subject: strconv.FormatInt(id, 10), reason: reason}
	if err == nil {
		if cancelled, err = a.db.CancelJob(ctx, id, jobID, by.written(p)); err != nil {
			return sub, unavailable(err, "cancel a submission")
		}
	}
	if l := a.current.Load(); l != nil && cancelled {
		l.mu.Lock()
		l.dropJob(jobID)
		l.mu.Unlock()
		l.rejudged.Store(true) // it may have been the last of one
		l.poke()
	}
	if cancelled {
		a.watch.changed(submission(id))
		a.log.Info("submission cancelled", "submission_id", id, "reason", reason, "by", p)
	}
	if sub, err = a.readSubmission(ctx, id); err != nil {
		return sub, err
	}
	if sub.State != gavelapi.StateCancelled {
		return sub, alreadyFinal(sub)
	}
	return sub, nil
}

func alreadyFinal(sub gavelapi.Submission) error {
	return apperr.New(apperr.Conflict, "a verdict stays; rejudge instead", "submission %d is final already: %s", sub.ID, sub.State)
}
