package store

import (
	"context"
	"encoding/json"
	"fmt"

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
	// Elsewhere is the rejudge in which every selected submission already is,
	// when that is why nothing was left to do; nothing was then stored.
	Elsewhere int64
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
		var insert storedb.InsertRejudgingsParams
		var keepless []int64 // submissions without a verdict to keep
		for _, r := range rows {
			if r.OpenRejudgeID != 0 {
				out.Skipped = append(out.Skipped, Skipped{r.ID, fmt.Sprintf("it is in rejudge %d, which is still running", r.OpenRejudgeID)})
				out.Elsewhere = r.OpenRejudgeID
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
		if len(insert.SubmissionIds) == 0 && out.Elsewhere != 0 {
			return nil
		}
		out.Elsewhere = 0
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
	if err := db.Q.LockJobsOfSubmissions(ctx, tx, insert.SubmissionIds); err != nil {
		return fmt.Errorf("lock open jobs: %w", err)
	}
	if out.Superseded, err = db.Q.SupersedeOpenJobs(ctx, tx, insert.SubmissionIds); err != nil {
		return fmt.Errorf("supersede open jobs: %w", err)
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

// Apply makes judgings of a rejudge current: all of them, or those of the named
// submissions. It returns which submissions changed hands; repeating it changes
// nothing. ok is false when the rejudge is in a state that cannot be applied.
func (db *DB) Apply(ctx context.Context, rejudgeID int64, submissions []int64) (applied []int64, state string, err error) {
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
		if applied, err = db.Q.ApplyRejudge(ctx, tx, &storedb.ApplyRejudgeParams{RejudgeID: rejudgeID, SubmissionIds: submissions}); err != nil {
			return fmt.Errorf("apply rejudge: %w", err)
		}
		if _, err := db.Q.DecideRejudge(ctx, tx, &storedb.DecideRejudgeParams{ID: rejudgeID, State: "applied", FromState: "ready"}); err != nil {
			return fmt.Errorf("close rejudge: %w", err)
		}
		state = "applied"
		return nil
	})
	return applied, state, err
}

// CancelRejudge ends what is open in a rejudge; what was judged stays readable
// but can no longer be applied. Repeating it changes nothing.
func (db *DB) CancelRejudge(ctx context.Context, rejudgeID int64) (ended []*storedb.CancelRejudgeJobsRow, err error) {
	err = db.InTx(ctx, func(tx pgx.Tx) error {
		r, err := db.Q.LockRejudge(ctx, tx, rejudgeID)
		if err != nil || r.State != "running" {
			return err
		}
		if err := db.Q.LockJobsOfRejudge(ctx, tx, rejudgeID); err != nil {
			return fmt.Errorf("lock open jobs: %w", err)
		}
		if ended, err = db.Q.CancelRejudgeJobs(ctx, tx, rejudgeID); err != nil {
			return fmt.Errorf("cancel open jobs: %w", err)
		}
		_, err = db.Q.CancelRejudge(ctx, tx, rejudgeID)
		return err
	})
	return ended, err
}
