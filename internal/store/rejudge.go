package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/internal/dispatch"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// MaxRejudge bounds the submissions of one rejudge.
const MaxRejudge = 100_000

// NewRejudge is what Rejudge plans.
type NewRejudge struct {
	Filter    storedb.LockRejudgeCandidatesParams // MaxRows is set by Rejudge
	Described json.RawMessage                     // the filter as the caller gave it, for people
	Reason    string
	AutoApply bool
	Budget    int // most of its jobs at work at once; 0 is the dispatch policy's share
	CreatedBy *int64
	// Audit is written with it, when set; its subject is the rejudge.
	Audit *storedb.InsertAuditParams
	// Limits computes the effective limits of a submission under the package
	// that is live now. An error skips the submission with its text.
	Limits func(packageDigest, language string) (json.RawMessage, error)
}

// Skipped is a submission that a rejudge left out, and why.
type Skipped struct {
	SubmissionID int64  `json:"submission_id"`
	Reason       string `json:"reason"`
}

// Planned is a rejudge that was made.
type Planned struct {
	RejudgeID  int64
	Jobs       []*storedb.InsertRejudgingsRow
	Superseded []*storedb.SupersedeOpenJobsRow
	Skipped    []Skipped
	// Elsewhere are the rejudges that already have what was selected, when
	// nothing was left to do; nothing was then stored, and Skipped says the rest.
	Elsewhere []int64
}

// Rejudge makes new judgings for what the filter selects, beside the old ones,
// in one transaction. Open first judgings are superseded. Submissions in
// another open rejudge are left out by name.
func (db *DB) Rejudge(ctx context.Context, n NewRejudge) (Planned, error) {
	var out Planned
	err := db.InTx(ctx, func(tx pgx.Tx) error {
		n.Filter.MaxRows = MaxRejudge + 1
		rows, err := db.Q.LockRejudgeCandidates(ctx, tx, &n.Filter)
		if err != nil {
			return fmt.Errorf("select submissions: %w", err)
		}
		if len(rows) > MaxRejudge {
			return ErrTooMany
		}
		if out.Skipped, err = db.missing(ctx, tx, n.Filter.Ids); err != nil {
			return err
		}
		if len(rows) == 0 && len(out.Skipped) > 0 {
			return nil // nothing of what was named exists, or what does is not selected
		}
		var insert storedb.InsertRejudgingsParams
		var keepless []int64 // submissions without a verdict to keep
		for _, r := range rows {
			if r.OpenRejudgeID != 0 {
				out.Skipped = append(out.Skipped, Skipped{r.ID, fmt.Sprintf("it is in rejudge %d, which is still running", r.OpenRejudgeID)})
				if !slices.Contains(out.Elsewhere, r.OpenRejudgeID) {
					out.Elsewhere = append(out.Elsewhere, r.OpenRejudgeID)
				}
				continue
			}
			limits, err := n.Limits(r.PackageDigest, r.Language)
			if err != nil {
				out.Skipped = append(out.Skipped, Skipped{r.ID, err.Error()})
				continue
			}
			if r.JudgingState == "open" || r.JudgingState == "cancelled" {
				keepless = append(keepless, r.ID)
			}
			insert.SubmissionIds = append(insert.SubmissionIds, r.ID)
			insert.PackageDigests = append(insert.PackageDigests, r.PackageDigest)
			insert.Limits = append(insert.Limits, limits)
			insert.Languages = append(insert.Languages, r.Language)
			insert.Submitters = append(insert.Submitters, r.Submitter)
			insert.Previous = append(insert.Previous, *r.CurrentJudgingID)
		}
		if len(insert.SubmissionIds) == 0 && len(out.Elsewhere) > 0 {
			return nil
		}
		out.Elsewhere = nil
		return db.insertRejudge(ctx, tx, n, insert, keepless, &out)
	})
	return out, err
}

// missing names the submissions that were asked for and are none.
func (db *DB) missing(ctx context.Context, tx pgx.Tx, ids []int64) (skipped []Skipped, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	none, err := db.Q.MissingSubmissions(ctx, tx, ids)
	if err != nil {
		return nil, fmt.Errorf("look for submissions: %w", err)
	}
	for _, id := range none {
		skipped = append(skipped, Skipped{id, "there is no such submission"})
	}
	return skipped, nil
}

// ErrTooMany says that a filter selects more than MaxRejudge submissions.
var ErrTooMany = fmt.Errorf("more than %d submissions are selected", MaxRejudge)

func (db *DB) insertRejudge(ctx context.Context, tx pgx.Tx, n NewRejudge, insert storedb.InsertRejudgingsParams, keepless []int64, out *Planned) error {
	made, err := db.Q.InsertRejudge(ctx, tx, &storedb.InsertRejudgeParams{
		Reason: n.Reason, Filter: n.Described, AutoApply: n.AutoApply, CreatedBy: n.CreatedBy,
	})
	if err != nil {
		return fmt.Errorf("insert rejudge: %w", err)
	}
	out.RejudgeID = made.ID
	if n.Audit != nil {
		n.Audit.Subject = rejudgeSubject(made.ID)
	}
	if err := db.audit(ctx, tx, n.Audit); err != nil {
		return err
	}
	if err := db.Q.LockJobsOfSubmissions(ctx, tx, insert.SubmissionIds); err != nil {
		return fmt.Errorf("lock open jobs: %w", err)
	}
	if out.Superseded, err = db.Q.SupersedeOpenJobs(ctx, tx, insert.SubmissionIds); err != nil {
		return fmt.Errorf("supersede open jobs: %w", err)
	}
	for _, s := range out.Superseded {
		insert.SupersededIds = append(insert.SupersededIds, s.SubmissionID)
		insert.SupersededPriorities = append(insert.SupersededPriorities, s.Priority)
	}
	insert.Priority = int16(dispatch.ClassPractice)
	if len(insert.SubmissionIds) > 1 {
		insert.Priority = int16(dispatch.ClassBatch)
	}
	insert.RejudgeID, insert.AutoApply, insert.BatchBudget = made.ID, n.AutoApply, int32(n.Budget)
	if out.Jobs, err = db.Q.InsertRejudgings(ctx, tx, &insert); err != nil {
		return fmt.Errorf("insert rejudgings: %w", err)
	}
	if len(keepless) > 0 {
		if _, err := db.Q.MakeCurrent(ctx, tx, &storedb.MakeCurrentParams{SubmissionIds: keepless, RejudgeID: made.ID}); err != nil {
			return fmt.Errorf("make rejudgings current: %w", err)
		}
	}
	skipped, err := json.Marshal(append([]Skipped{}, out.Skipped...))
	if err != nil {
		return fmt.Errorf("encode what was skipped: %w", err)
	}
	err = db.Q.SetRejudgeTotal(ctx, tx, &storedb.SetRejudgeTotalParams{ID: made.ID, Total: int32(len(out.Jobs)), Skipped: skipped})
	if err != nil {
		return fmt.Errorf("store the size of the rejudge: %w", err)
	}
	return nil
}

// rejudgeSubject is what the audit trail calls a rejudge.
func rejudgeSubject(id int64) string { return fmt.Sprintf("rejudge %d", id) }

// audit writes down what is done in a transaction, by whom and why; nil is
// nobody's doing.
func (db *DB) audit(ctx context.Context, tx pgx.Tx, p *storedb.InsertAuditParams) error {
	if p == nil {
		return nil
	}
	if err := db.Q.InsertAudit(ctx, tx, p); err != nil {
		return fmt.Errorf("write the audit trail: %w", err)
	}
	return nil
}

// NotInRejudgeError names submissions that are to be applied and that a rejudge
// does not have. Nothing was applied.
type NotInRejudgeError struct{ Submissions []int64 }

func (e *NotInRejudgeError) Error() string {
	return fmt.Sprintf("%d of the submissions are not in the rejudge", len(e.Submissions))
}

// Apply makes judgings of a rejudge current: all of them, or those of the named
// submissions. It returns which submissions changed hands; repeating it changes
// nothing, and one that changes nothing is not in the audit trail. state is that
// of the rejudge afterwards.
func (db *DB) Apply(ctx context.Context, rejudgeID int64, submissions []int64, audit *storedb.InsertAuditParams) (applied []int64, state string, err error) {
	err = db.InTx(ctx, func(tx pgx.Tx) error {
		r, err := db.Q.LockRejudge(ctx, tx, rejudgeID)
		if err != nil {
			return err
		}
		state = r.State
		if state != "ready" && state != "applied" {
			return nil
		}
		if submissions == nil {
			submissions = []int64{}
		}
		none, err := db.Q.NotInRejudge(ctx, tx, &storedb.NotInRejudgeParams{SubmissionIds: submissions, RejudgeID: rejudgeID})
		if err != nil {
			return fmt.Errorf("look for the submissions of a rejudge: %w", err)
		}
		if len(none) > 0 {
			return &NotInRejudgeError{none}
		}
		if applied, err = db.Q.ApplyRejudge(ctx, tx, &storedb.ApplyRejudgeParams{RejudgeID: rejudgeID, SubmissionIds: submissions}); err != nil {
			return fmt.Errorf("apply rejudge: %w", err)
		}
		decided, err := db.Q.DecideRejudge(ctx, tx, &storedb.DecideRejudgeParams{ID: rejudgeID, State: "applied", FromState: "ready"})
		if err != nil {
			return fmt.Errorf("close rejudge: %w", err)
		}
		state = "applied"
		if len(applied) > 0 || decided > 0 {
			return db.audit(ctx, tx, audit)
		}
		return nil
	})
	return applied, state, err
}

// CancelledRejudge is what became of the open jobs of a rejudge.
type CancelledRejudge struct {
	Ended    []*storedb.CancelRejudgeJobsRow
	Returned []*storedb.ReturnFirstJudgingsRow // to where they were before the rejudge
}

// CancelRejudge ends what is open in a rejudge; what was judged stays readable
// but can no longer be applied. Submissions that had no verdict yet when the
// rejudge began are judged all the same, as if it had not been. Repeating it
// changes nothing.
func (db *DB) CancelRejudge(ctx context.Context, rejudgeID int64, audit *storedb.InsertAuditParams) (out CancelledRejudge, err error) {
	err = db.InTx(ctx, func(tx pgx.Tx) error {
		r, err := db.Q.LockRejudge(ctx, tx, rejudgeID)
		if err != nil || r.State != "running" {
			return err
		}
		if err := db.Q.LockJobsOfRejudge(ctx, tx, rejudgeID); err != nil {
			return fmt.Errorf("lock open jobs: %w", err)
		}
		if out.Ended, err = db.Q.CancelRejudgeJobs(ctx, tx, rejudgeID); err != nil {
			return fmt.Errorf("cancel open jobs: %w", err)
		}
		if out.Returned, err = db.Q.ReturnFirstJudgings(ctx, tx, rejudgeID); err != nil {
			return fmt.Errorf("give first judgings back: %w", err)
		}
		if _, err = db.Q.CancelRejudge(ctx, tx, rejudgeID); err != nil {
			return err
		}
		return db.audit(ctx, tx, audit)
	})
	return out, err
}
