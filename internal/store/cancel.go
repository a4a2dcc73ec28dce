package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// CancelJob ends the open job of a submission, pending or leased; false says
// that there is none any more, and then nothing is written down.
//
// The job is locked by a statement of its own. A statement sees what was
// committed when it began: one that waits for a grant to commit would end the
// job and not see the attempt that came with the grant, which would then be at
// work for ever. Whatever else ends jobs whose state it does not know does the
// same.
func (db *DB) CancelJob(ctx context.Context, submissionID, jobID int64, audit *storedb.InsertAuditParams) (ended bool, err error) {
	err = db.InTx(ctx, func(tx pgx.Tx) error {
		if err := db.Q.LockJob(ctx, tx, jobID); err != nil {
			return fmt.Errorf("lock a job: %w", err)
		}
		rows, err := db.Q.CancelOpenJob(ctx, tx, &storedb.CancelOpenJobParams{SubmissionID: submissionID, JobID: jobID})
		if ended = len(rows) == 1; err != nil || !ended {
			return err
		}
		return db.audit(ctx, tx, audit)
	})
	return ended && err == nil, err
}

// CancelRun ends the open job of a run, as CancelJob does.
func (db *DB) CancelRun(ctx context.Context, runID int64) (ended []*storedb.CancelOpenRunRow, err error) {
	err = db.InTx(ctx, func(tx pgx.Tx) error {
		if err := db.Q.LockJobOfRun(ctx, tx, runID); err != nil {
			return fmt.Errorf("lock the job of a run: %w", err)
		}
		ended, err = db.Q.CancelOpenRun(ctx, tx, runID)
		return err
	})
	return ended, err
}
