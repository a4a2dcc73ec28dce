package arbiter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/auth"
	"github.com/gavel-oj/gavel/internal/dispatch"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// StartRejudge implements httpapi.Service: it makes new judgings beside the old
// ones and returns at once; the work follows behind live submissions.
func (a *Arbiter) StartRejudge(ctx context.Context, p auth.Principal, n gavelapi.NewRejudge) (gavelapi.Rejudge, error) {
	f := n.Filter
	if len(f.Submissions) == 0 && f.Problem == "" && f.User == "" && f.Language == "" && f.Verdict == "" && !f.Outdated && !f.All {
		return gavelapi.Rejudge{}, apperr.New(apperr.Invalid, "name a problem, a user, submissions …, or everything with all: true", "the filter is empty: it selects nothing").At("body.filter")
	}
	if err := a.knowFilter(ctx, f.Problem, f.Language, "body.filter"); err != nil {
		return gavelapi.Rejudge{}, err
	}
	planned, err := a.plan(ctx, p, n)
	if err != nil {
		return gavelapi.Rejudge{}, err
	}
	if planned.RejudgeID == 0 && len(planned.Elsewhere) == 0 {
		return gavelapi.Rejudge{}, nothingNamed(f.Submissions, planned.Skipped)
	}
	if len(planned.Elsewhere) > 0 {
		return gavelapi.Rejudge{}, allElsewhere(planned)
	}
	return a.Rejudge(ctx, planned.RejudgeID)
}

// RejudgeSubmission implements httpapi.Service: one submission, applied as soon
// as it is judged. Asking again with the same reason while it is being rejudged
// gives the same rejudge; another reason, or a rejudge that is not applied by
// itself, is a conflict, because the caller would take it for its own.
func (a *Arbiter) RejudgeSubmission(ctx context.Context, p auth.Principal, id int64, reason string) (gavelapi.Rejudge, error) {
	if _, err := a.readSubmission(ctx, id); err != nil {
		return gavelapi.Rejudge{}, err
	}
	planned, err := a.plan(ctx, p, gavelapi.NewRejudge{Filter: gavelapi.RejudgeFilter{Submissions: []int64{id}}, Reason: reason, Apply: "at_once"})
	if err != nil {
		return gavelapi.Rejudge{}, err
	}
	if len(planned.Elsewhere) > 0 {
		r, err := a.Rejudge(ctx, planned.Elsewhere[0])
		if err == nil && (r.Apply != "at_once" || r.Reason != reason) {
			return r, apperr.New(apperr.Conflict, fmt.Sprintf("wait for rejudge %d, or cancel it and ask again", r.ID),
				"submission %d is being rejudged already, by rejudge %d for another reason", id, r.ID)
		}
		return r, err
	}
	if len(planned.Skipped) > 0 {
		return gavelapi.Rejudge{}, apperr.New(apperr.Invalid, "submit it again in a language that exists", "submission %d: %s", id, planned.Skipped[0].Reason)
	}
	return a.Rejudge(ctx, planned.RejudgeID)
}

// allElsewhere says who has what is to be judged again.
func allElsewhere(p store.Planned) error {
	hint := fmt.Sprintf("wait for rejudge %s, or cancel it", someIDs(p.Elsewhere))
	if slices.ContainsFunc(p.Skipped, func(s store.Skipped) bool { return s.Reason != p.Skipped[0].Reason }) {
		return apperr.New(apperr.Conflict, hint, "nothing is judged again: %s",
			someOf(p.Skipped, func(s store.Skipped) string { return fmt.Sprintf("submission %d: %s", s.SubmissionID, s.Reason) }, "; "))
	}
	return apperr.New(apperr.Conflict, hint, "everything selected is in rejudge %d, which is still running", p.Elsewhere[0])
}

// someOf lists the first of many.
func someOf[T any](list []T, text func(T) string, between string) string {
	const shown = 5
	var texts []string
	for _, one := range list[:min(shown, len(list))] {
		texts = append(texts, text(one))
	}
	all := strings.Join(texts, between)
	if more := len(list) - shown; more > 0 {
		all += fmt.Sprintf("%sand %d more", between, more)
	}
	return all
}

func someIDs(ids []int64) string {
	return someOf(ids, func(id int64) string { return strconv.FormatInt(id, 10) }, ", ")
}

// nothingNamed says why nothing of what was named can be judged again.
func nothingNamed(ids []int64, missing []store.Skipped) error {
	which := someOf(missing, func(m store.Skipped) string { return strconv.FormatInt(m.SubmissionID, 10) }, ", ")
	hint, what := "gavel submission list shows the numbers", "there is no submission "+which
	if len(missing) < len(ids) {
		hint, what = "name others, or leave out the rest of the filter", what+", and the others that are named are not what the filter selects"
	}
	return apperr.New(apperr.NotFound, hint, "nothing is judged again: %s", what).At("body.filter.submissions")
}

func (a *Arbiter) plan(ctx context.Context, p auth.Principal, n gavelapi.NewRejudge) (store.Planned, error) {
	optional := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	f, by := n.Filter, p.TokenID
	ids := f.Submissions
	if ids == nil {
		ids = []int64{}
	}
	planned, err := a.db.Rejudge(ctx, store.NewRejudge{
		Filter: storedb.LockRejudgeCandidatesParams{
			Ids: ids, Problem: optional(f.Problem), Submitter: optional(f.User),
			Language: optional(f.Language), Verdict: optional(f.Verdict), Outdated: f.Outdated,
		},
		Described: mustJSON(f), Reason: n.Reason, AutoApply: n.Apply == "at_once", CreatedBy: &by,
		Limits: a.limitsOf(ctx),
		Audit:  (&deed{action: "rejudge.start", reason: n.Reason, details: f}).written(p),
	})
	if errors.Is(err, store.ErrTooMany) {
		return planned, apperr.New(apperr.TooLarge, "narrow the filter and rejudge in parts", "%s", err.Error()).At("body.filter")
	}
	if err != nil {
		return planned, unavailable(err, "plan a rejudge")
	}
	if l := a.current.Load(); l != nil {
		l.mu.Lock()
		for _, s := range planned.Superseded {
			l.dropJob(s.JobID)
		}
		l.mu.Unlock()
		l.scanDue.Store(true)  // the loop reads the new jobs
		l.rejudged.Store(true) // a rejudge of nothing is done at once
		l.poke()
	}
	for _, s := range planned.Superseded {
		a.watch.changed(submission(s.SubmissionID))
	}
	if planned.RejudgeID != 0 {
		a.log.Info("rejudge started", "rejudge_id", planned.RejudgeID, "submissions", len(planned.Jobs),
			"superseded", len(planned.Superseded), "skipped", len(planned.Skipped), "by", p, "reason", n.Reason)
	}
	return planned, nil
}

// limitsOf computes effective limits, reading each package once.
func (a *Arbiter) limitsOf(ctx context.Context) func(digest, lang string) (json.RawMessage, error) {
	known := map[string]*problem.Manifest{}
	return func(digest, id string) (json.RawMessage, error) {
		lang, ok := a.cfg.Languages.Get(id)
		if !ok {
			return nil, fmt.Errorf("its language %q does not exist any more", id)
		}
		m := known[digest]
		if m == nil {
			raw, err := a.q.PackageManifest(ctx, a.db.Pool, digest)
			if err != nil {
				return nil, fmt.Errorf("its package cannot be read: %w", err)
			}
			if m, err = readManifest(raw); err != nil {
				return nil, err
			}
			known[digest] = m
		}
		limits, err := language.Effective(m.Limits, lang)
		if err != nil {
			return nil, err
		}
		return mustJSON(wireLimits(limits)), nil
	}
}

// dropJob forgets a job that is no longer open. Needs l.mu.
func (l *leadership) dropJob(jobID int64) {
	if h := l.byJob[jobID]; h != nil {
		l.letGo(h.token)
		l.warn(h)
	}
	l.board.RemoveJob(jobID)
	delete(l.failedBy, jobID)
}

// moveToJudge moves a rejudge's job to the lane judge, and to where it goes if a
// lease of it ends without a result. Needs l.mu.
func (l *leadership) moveToJudge(jobID int64, class int) {
	l.board.Move(jobID, dispatch.Judge, class)
	if h := l.byJob[jobID]; h != nil {
		h.job.Lane, h.job.Class, h.job.Batch, h.job.Budget = dispatch.Judge, class, 0, 0
	}
}

// finishRejudges closes rejudges of which nothing is open any more.
func (l *leadership) finishRejudges(ctx context.Context) error {
	rows, err := l.a.q.FinishRejudges(ctx, l.a.db.Pool)
	if err != nil {
		return err
	}
	for _, r := range rows {
		l.a.log.Info("rejudge is done", "rejudge_id", r.ID, "state", r.State, "submissions", r.Total)
	}
	return nil
}

func noRejudge(id int64) error {
	return apperr.New(apperr.NotFound, "gavel rejudge list shows the newest ones", "there is no rejudge %d", id)
}

// Rejudge implements httpapi.Service.
func (a *Arbiter) Rejudge(ctx context.Context, id int64) (gavelapi.Rejudge, error) {
	rows, err := a.q.Rejudges(ctx, a.db.Pool, &storedb.RejudgesParams{First: id, Last: id, Page: 1})
	if err != nil {
		return gavelapi.Rejudge{}, unavailable(err, "read a rejudge")
	}
	if len(rows) == 0 {
		return gavelapi.Rejudge{}, noRejudge(id)
	}
	return rejudgeInfo(rows[0])
}

func rejudgeInfo(r *storedb.RejudgesRow) (gavelapi.Rejudge, error) {
	out := gavelapi.Rejudge{
		ID: r.ID, State: r.State, Reason: r.Reason, Apply: "later", Total: int(r.Total), Done: int(r.Done),
		Changed: int(r.Changed), Applied: int(r.Applied), Failed: int(r.Failed), CreatedAt: r.CreatedAt.UTC(), FinishedAt: utc(r.FinishedAt), DecidedAt: utc(r.DecidedAt),
	}
	if r.AutoApply {
		out.Apply = "at_once"
	}
	if err := errors.Join(json.Unmarshal(r.Filter, &out.Filter), json.Unmarshal(r.Skipped, &out.Skipped)); err != nil {
		return out, fmt.Errorf("stored rejudge %d: %w", r.ID, err)
	}
	return out, nil
}

// Rejudges implements httpapi.Service.
func (a *Arbiter) Rejudges(ctx context.Context, cursor string, limit int) (gavelapi.RejudgeList, error) {
	list := gavelapi.RejudgeList{Rejudges: []gavelapi.Rejudge{}}
	before, err := readCursor(cursor, math.MaxInt64)
	if err != nil {
		return list, err
	}
	rows, err := a.q.Rejudges(ctx, a.db.Pool, &storedb.RejudgesParams{Last: before - 1, Page: int32(limit) + 1})
	if err != nil {
		return list, unavailable(err, "list rejudges")
	}
	if len(rows) > limit {
		rows = rows[:limit]
		list.Next = writeCursor(rows[limit-1].ID)
	}
	for _, r := range rows {
		info, err := rejudgeInfo(r)
		if err != nil {
			return list, err
		}
		list.Rejudges = append(list.Rejudges, info)
	}
	return list, nil
}

// RejudgeChanges implements httpapi.Service: old beside new, by submission.
func (a *Arbiter) RejudgeChanges(ctx context.Context, id int64, onlyChanged bool, cursor string, limit int) (gavelapi.RejudgeChangeList, error) {
	list := gavelapi.RejudgeChangeList{Changes: []gavelapi.RejudgeChange{}}
	after, err := readCursor(cursor, 0)
	if err != nil {
		return list, err
	}
	r, err := a.Rejudge(ctx, id)
	if err != nil {
		return list, err
	}
	list.State = r.State
	rows, err := a.q.RejudgeChanges(ctx, a.db.Pool, &storedb.RejudgeChangesParams{RejudgeID: id, After: after, OnlyChanged: onlyChanged, Page: int32(limit) + 1})
	if err != nil {
		return list, unavailable(err, "read the changes of a rejudge")
	}
	if len(rows) > limit {
		rows = rows[:limit]
		list.Next = writeCursor(rows[limit-1].SubmissionID)
	}
	for _, r := range rows {
		c := gavelapi.RejudgeChange{
			SubmissionID: r.SubmissionID, Problem: r.Problem, User: r.Submitter, Language: r.Language,
			OldVerdict: r.OldVerdict, NewVerdict: r.NewVerdict, OldCPUUS: r.OldCPUUs, NewCPUUS: r.NewCPUUs, NewState: openIsPending(r.NewState),
			First: r.First, Applied: r.Applied,
		}
		if r.OldState == "system_error" {
			c.OldVerdict = "SE"
		}
		if r.NewState == "system_error" {
			c.NewVerdict = "SE"
		}
		list.Changes = append(list.Changes, c)
	}
	return list, nil
}

// ofRejudge is something that is done to a rejudge.
func ofRejudge(action string, id int64, reason string) deed {
	return deed{action: "rejudge." + action, subject: fmt.Sprintf("rejudge %d", id), reason: reason}
}

// ApplyRejudge implements httpapi.Service. Repeating it, or applying the rest
// after a part, is fine.
func (a *Arbiter) ApplyRejudge(ctx context.Context, p auth.Principal, id int64, which []int64, reason string) (gavelapi.Rejudge, error) {
	by := ofRejudge("apply", id, reason)
	by.details = map[string]any{"submissions": len(which)}
	applied, state, err := a.db.Apply(ctx, id, which, by.written(p))
	if none, ok := errors.AsType[*store.NotInRejudgeError](err); ok {
		return gavelapi.Rejudge{}, apperr.New(apperr.Invalid, fmt.Sprintf("gavel rejudge diff %d --all lists those that are; nothing was applied", id),
			"not in rejudge %d: submission %s", id, someIDs(none.Submissions)).At("body.submissions")
	}
	switch {
	case store.IsNoRows(err):
		return gavelapi.Rejudge{}, noRejudge(id)
	case err != nil:
		return gavelapi.Rejudge{}, unavailable(err, "apply a rejudge")
	case state == gavelapi.RejudgeRunning:
		return gavelapi.Rejudge{}, apperr.New(apperr.Conflict, "wait until it is ready", "rejudge %d is still running", id)
	case state != gavelapi.RejudgeApplied:
		return gavelapi.Rejudge{}, apperr.New(apperr.Conflict, "start a new one", "rejudge %d is %s and cannot be applied", id, state)
	}
	for _, one := range applied {
		a.watch.changed(submission(one))
	}
	a.log.Info("rejudge applied", "rejudge_id", id, "reason", reason, "submissions", len(applied), "by", p)
	return a.Rejudge(ctx, id)
}

// DiscardRejudge implements httpapi.Service: the old verdicts stay.
func (a *Arbiter) DiscardRejudge(ctx context.Context, p auth.Principal, id int64, reason string) (gavelapi.Rejudge, error) {
	r, err := a.Rejudge(ctx, id)
	if err != nil || r.State == gavelapi.RejudgeDiscarded {
		return r, err
	}
	by, n := ofRejudge("discard", id, reason), int64(0)
	err = a.db.InTx(ctx, func(tx pgx.Tx) (err error) {
		n, err = a.q.DecideRejudge(ctx, tx, &storedb.DecideRejudgeParams{ID: id, State: gavelapi.RejudgeDiscarded, FromState: gavelapi.RejudgeReady})
		if err != nil || n == 0 {
			return err
		}
		return a.q.InsertAudit(ctx, tx, by.written(p))
	})
	if err != nil {
		return r, unavailable(err, "discard a rejudge")
	}
	if r, err = a.Rejudge(ctx, id); err == nil && n == 0 && r.State != gavelapi.RejudgeDiscarded {
		hint := fmt.Sprintf("stop it first: gavel rejudge cancel %d", id)
		switch r.State {
		case gavelapi.RejudgeApplied:
			hint = "its new verdicts are current; to judge again, start another rejudge"
		case gavelapi.RejudgeCancelled:
			hint = "what was not applied then never will be; nothing is left to do"
		}
		return r, apperr.New(apperr.Conflict, hint, "rejudge %d is %s", id, r.State)
	}
	if n > 0 {
		a.log.Info("rejudge discarded", "rejudge_id", id, "by", p)
	}
	return r, err
}

// CancelRejudge implements httpapi.Service; repeating it is fine.
func (a *Arbiter) CancelRejudge(ctx context.Context, p auth.Principal, id int64, reason string) (gavelapi.Rejudge, error) {
	by := ofRejudge("cancel", id, reason)
	cancelled, err := a.db.CancelRejudge(ctx, id, by.written(p))
	if store.IsNoRows(err) {
		return gavelapi.Rejudge{}, noRejudge(id)
	}
	if err != nil {
		return gavelapi.Rejudge{}, unavailable(err, "cancel a rejudge")
	}
	open := len(cancelled.Ended) + len(cancelled.Returned)
	if l := a.current.Load(); l != nil && open > 0 {
		l.mu.Lock()
		for _, e := range cancelled.Ended {
			l.dropJob(e.JobID)
		}
		for _, b := range cancelled.Returned {
			l.moveToJudge(b.JobID, int(b.Priority))
		}
		l.mu.Unlock()
		l.poke()
	}
	for _, e := range cancelled.Ended {
		a.watch.changed(submission(e.SubmissionID))
	}
	for _, b := range cancelled.Returned {
		a.watch.changed(submission(b.SubmissionID))
	}
	r, err := a.Rejudge(ctx, id)
	if err == nil && r.State != gavelapi.RejudgeCancelled {
		hint := "its new verdicts are current; to judge again, start another rejudge"
		switch r.State {
		case gavelapi.RejudgeReady:
			hint = fmt.Sprintf("nothing of it runs any more: discard it (gavel rejudge discard %d), or apply it", id)
		case gavelapi.RejudgeDiscarded:
			hint = "the old verdicts stay; nothing is left to do"
		}
		return r, apperr.New(apperr.Conflict, hint, "rejudge %d is %s already", id, r.State)
	}
	if open > 0 {
		a.log.Info("rejudge cancelled", "rejudge_id", id, "ended", len(cancelled.Ended), "judged_all_the_same", len(cancelled.Returned), "by", p)
	}
	return r, err
}

// Account implements httpapi.Service. Somebody unknown has solved nothing.
func (a *Arbiter) Account(ctx context.Context, user string) (gavelapi.Account, error) {
	out := gavelapi.Account{User: user, Solved: []gavelapi.Solve{}}
	rows, err := a.q.SolvesOf(ctx, a.db.Pool, user)
	if err != nil {
		return out, unavailable(err, "read what a user has solved")
	}
	for _, r := range rows {
		out.Solved = append(out.Solved, gavelapi.Solve{Problem: r.Problem, Points: int(r.Points), SubmissionID: r.SubmissionID, SolvedAt: r.SolvedAt.UTC()})
		out.Points += int64(r.Points)
	}
	return out, nil
}

func judgingInfo(g *storedb.JudgingsOfSubmissionRow, current int64) gavelapi.JudgingInfo {
	info := gavelapi.JudgingInfo{
		ID: g.ID, Kind: g.Kind, State: openIsPending(g.State), Verdict: g.Verdict, PackageDigest: g.PackageDigest,
		Worker: knownAs(g.Worker), Current: g.ID == current, CreatedAt: g.CreatedAt.UTC(), FinishedAt: utc(g.FinishedAt),
	}
	if g.RejudgeID != nil {
		info.RejudgeID, info.RejudgeReason, info.RejudgeBy = *g.RejudgeID, g.RejudgeReason, g.RejudgeBy
	}
	if g.State == "system_error" {
		info.Verdict = "SE"
	}
	return info
}

// openIsPending puts a judging's state into the API's words.
func openIsPending(state string) string {
	if state == "open" {
		return gavelapi.StatePending
	}
	return state
}

// Cursors of lists by id are the last id of the page before, in base 36.
func writeCursor(id int64) string { return strconv.FormatInt(id, 36) }

func readCursor(cursor string, first int64) (int64, error) {
	if cursor == "" {
		return first, nil
	}
	id, err := strconv.ParseInt(cursor, 36, 64)
	if err != nil || id <= 0 {
		return 0, apperr.New(apperr.Invalid, "use the next field of the page before", "the cursor is not one of this list").At("query.cursor")
	}
	return id, nil
}
