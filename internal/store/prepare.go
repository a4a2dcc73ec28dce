package store

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// States of a preparation.
const (
	Preparing  = "preparing"
	Published  = "published"
	Failed     = "failed"
	Superseded = "superseded"
)

// reportsKept is how many imports of a problem can be looked at.
const reportsKept = 20

// PrepareStep is one step of a preparation.
type PrepareStep struct {
	Kind     string // checker, validator, refusal or submission
	Path     string // of the program, in the package
	Language string // all that it needs, with spaces; "" needs none
	Expected string
	Limits   json.RawMessage // nil but for submissions
}

// NewImport is what Import stores.
type NewImport struct {
	Package storedb.InsertPackageParams
	Name    string
	Title   string
	Verify  string // none publishes at once
	Steps   []PrepareStep
	// Features are what the workers of its steps must be able to do.
	Features []string
	TokenID  int64
	// Audit, when set, is written with a package that is published at once.
	Audit *storedb.InsertAuditParams
}

// Imported is what Import did.
type Imported struct {
	Unchanged     bool           // the package is live already
	PreparationID int64          // 0 when Unchanged
	Cancelled     []int64        // jobs of an older preparation that this one supersedes
	Jobs          []*storedb.Job // of the new one, to be dispatched
}

// Import makes a package the newest of its problem: what is being prepared is
// superseded, and the package is published at once or has its first steps made
// jobs. The same package, asked for again while it is being prepared, is left to
// that. n.Package's blob is stored by the caller before.
func (db *DB) Import(ctx context.Context, n NewImport) (out Imported, err error) {
	err = db.InTx(ctx, func(tx pgx.Tx) error {
		out = Imported{}
		if err := db.Q.LockProblemName(ctx, tx, n.Name); err != nil {
			return fmt.Errorf("lock the name: %w", err)
		}
		if _, err := db.Q.InsertPackage(ctx, tx, &n.Package); err != nil {
			return fmt.Errorf("insert package: %w", err)
		}
		older, err := db.Q.PreparationAtWork(ctx, tx, n.Name)
		switch {
		case IsNoRows(err):
		case err != nil:
			return fmt.Errorf("read the preparation at work: %w", err)
		case older.PackageDigest == n.Package.Digest && older.Verify == n.Verify:
			out.PreparationID = older.ID
			return nil
		default:
			if out.Cancelled, err = db.supersede(ctx, tx, older.ID); err != nil {
				return err
			}
		}
		live, err := db.Q.LockProblem(ctx, tx, n.Name)
		switch {
		case IsNoRows(err):
		case err != nil:
			return fmt.Errorf("lock problem: %w", err)
		case live.PackageDigest == n.Package.Digest:
			out.Unchanged = true
			return nil
		}
		return db.newPreparation(ctx, tx, n, &out)
	})
	return out, err
}

func (db *DB) newPreparation(ctx context.Context, tx pgx.Tx, n NewImport, out *Imported) error {
	row := storedb.InsertPreparationParams{
		Problem: n.Name, Title: n.Title, PackageDigest: n.Package.Digest, Verify: n.Verify, State: Preparing, CreatedBy: &n.TokenID,
	}
	if n.Verify == "none" {
		version, _, err := db.publish(ctx, tx, n.Package.Digest, n.Name, n.Title, &n.TokenID)
		if err != nil {
			return err
		}
		row.State, row.Version = Published, &version
		if n.Audit != nil {
			if err := db.audit(ctx, tx, n.Audit); err != nil {
				return fmt.Errorf("write to the audit trail: %w", err)
			}
		}
	}
	id, err := db.Q.InsertPreparation(ctx, tx, &row)
	if err != nil {
		return fmt.Errorf("insert preparation: %w", err)
	}
	out.PreparationID = id
	if _, err := db.Q.DeleteOldPreparations(ctx, tx, &storedb.DeleteOldPreparationsParams{Problem: n.Name, Keep: reportsKept}); err != nil {
		return fmt.Errorf("delete old preparations: %w", err)
	}
	if row.State == Published {
		return nil
	}
	steps := storedb.InsertPreparationStepsParams{PreparationID: id}
	for i, s := range n.Steps {
		steps.Ns = append(steps.Ns, int32(i+1))
		steps.Kinds = append(steps.Kinds, s.Kind)
		steps.Paths = append(steps.Paths, s.Path)
		steps.Languages = append(steps.Languages, s.Language)
		steps.Expected = append(steps.Expected, s.Expected)
		steps.Limits = append(steps.Limits, s.Limits)
	}
	if err := db.Q.InsertPreparationSteps(ctx, tx, &steps); err != nil {
		return fmt.Errorf("insert %d steps: %w", len(n.Steps), err)
	}
	out.Jobs, err = db.Q.BeginPreparationSteps(ctx, tx, &storedb.BeginPreparationStepsParams{PreparationID: id, Features: n.Features})
	if err != nil {
		return fmt.Errorf("begin the first steps: %w", err)
	}
	return nil
}

// supersede ends a preparation at work: it can never publish any more.
func (db *DB) supersede(ctx context.Context, tx pgx.Tx, id int64) (cancelled []int64, err error) {
	if _, err := db.Q.FinishPreparation(ctx, tx, &storedb.FinishPreparationParams{
		ID: id, State: Superseded, Message: "a newer import of the problem came before it was done",
	}); err != nil {
		return nil, fmt.Errorf("supersede preparation %d: %w", id, err)
	}
	if err := db.Q.LockPrepareJobs(ctx, tx, id); err != nil {
		return nil, fmt.Errorf("lock the jobs of preparation %d: %w", id, err)
	}
	rows, err := db.Q.CancelPrepareJobs(ctx, tx, id)
	if err != nil {
		return nil, fmt.Errorf("cancel the jobs of preparation %d: %w", id, err)
	}
	if err := db.Q.SkipSteps(ctx, tx, id); err != nil {
		return nil, fmt.Errorf("skip the steps of preparation %d: %w", id, err)
	}
	for _, r := range rows {
		cancelled = append(cancelled, r.JobID)
	}
	return cancelled, nil
}

// Settled is what Settle found.
type Settled struct {
	State   string // of the preparation now
	Changed bool   // it has ended by this call
	Jobs    []*storedb.Job
	Problem string
}

// Settle takes a preparation on when its steps are done: to the next ones, to
// its publication or to its failure. lost is the fault of a step whose job is
// gone without a result. It may be called at any time, by anybody.
func (db *DB) Settle(ctx context.Context, id int64, features []string, lost json.RawMessage) (out Settled, err error) {
	err = db.InTx(ctx, func(tx pgx.Tx) error {
		out = Settled{}
		p, err := db.Q.LockPreparation(ctx, tx, id)
		if err != nil {
			return fmt.Errorf("lock preparation %d: %w", id, err)
		}
		out.State, out.Problem = p.State, p.Problem
		if p.State != Preparing {
			return nil
		}
		if _, err := db.Q.EndOrphanedSteps(ctx, tx, &storedb.EndOrphanedStepsParams{PreparationID: id, Fault: lost}); err != nil {
			return fmt.Errorf("end orphaned steps: %w", err)
		}
		n, err := db.Q.CountSteps(ctx, tx, id)
		if err != nil {
			return fmt.Errorf("count steps: %w", err)
		}
		end := storedb.FinishPreparationParams{ID: id, State: Failed}
		switch {
		case n.Open > 0:
			return nil
		case string(n.Fault) != "null":
			end.Fault, end.Message = n.Fault, "the system failed, not the package"
		case n.Failed > 0:
			end.Message = fmt.Sprintf("%d of %d steps found something wrong with the package", n.Failed, n.Ended)
		case n.Waiting > 0:
			out.Jobs, err = db.Q.BeginPreparationSteps(ctx, tx, &storedb.BeginPreparationStepsParams{PreparationID: id, Submissions: true, Features: features})
			if err != nil {
				return fmt.Errorf("begin the next steps: %w", err)
			}
			return nil
		default:
			version, _, err := db.publish(ctx, tx, p.PackageDigest, p.Problem, p.Title, p.CreatedBy)
			if err != nil {
				return err
			}
			end.State, end.Version = Published, &version
		}
		if _, err := db.Q.FinishPreparation(ctx, tx, &end); err != nil {
			return fmt.Errorf("finish preparation %d: %w", id, err)
		}
		out.State, out.Changed = end.State, true
		return db.Q.SkipSteps(ctx, tx, id)
	})
	return out, err
}
