package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// NewRun is what SubmitRun stores.
type NewRun struct {
	Language    string
	Submitter   string
	SourceName  string
	Source      []byte
	Files       []SourceFile
	Inputs      [][]byte // at least one
	Limits      json.RawMessage
	Features    []string // what its worker must be able to do
	MemoryBytes int64    // of Limits, for dispatch
	CPUUS       int64
	Keep        time.Duration // of the result
	Key         IdempotencyKey
	TokenID     int64
	MaxWaiting  int // of the submitter, this one included; 0 is any number
}

// SubmittedRun is what SubmitRun stored, or what an earlier call with the same
// key did.
type SubmittedRun struct {
	RunID    int64
	JobID    int64 // 0 when Replayed
	Replayed bool
}

// SubmitRun stores a run with its job in one transaction. Of an idempotency
// key holds what Submit says, for as long as the run is kept.
func (db *DB) SubmitRun(ctx context.Context, n NewRun) (SubmittedRun, error) {
	var out SubmittedRun
	inputs := make([][]byte, len(n.Inputs))
	for i, in := range n.Inputs {
		inputs[i] = append([]byte{}, in...) // an empty input is not a NULL
	}
	run := storedb.InsertRunParams{
		Language: n.Language, Submitter: n.Submitter, SourceName: n.SourceName, Source: n.Source,
		Inputs: inputs, Limits: n.Limits, CreatedBy: &n.TokenID, Keep: n.Keep,
	}
	run.FileNames, run.FileContents = splitFiles(n.Files)
	err := db.InTx(ctx, func(tx pgx.Tx) (err error) {
		if out.RunID, err = db.Q.InsertRun(ctx, tx, &run); err != nil {
			return fmt.Errorf("insert run: %w", err)
		}
		// First the key: what is asked again is not counted again.
		if err := db.takeKey(ctx, tx, n.TokenID, n.Key, nil, &out.RunID); err != nil {
			return err
		}
		if err := db.checkWaiting(ctx, tx, n.Submitter, n.MaxWaiting); err != nil {
			return err
		}
		out.JobID, err = db.Q.InsertRunJob(ctx, tx, &storedb.InsertRunJobParams{
			RunID: out.RunID, Language: n.Language, Submitter: n.Submitter, Features: n.Features,
			MemoryBytes: n.MemoryBytes, CPUUs: n.CPUUS,
		})
		if err != nil {
			return fmt.Errorf("insert job: %w", err)
		}
		return nil
	})
	if err != errKeyTaken { //nolint:errorlint // compared by identity on purpose: returned as it is above
		return out, err
	}
	earlier, err := db.underKey(ctx, n.TokenID, n.Key)
	if err == nil && earlier.RunID == nil {
		err = otherRequest()
	}
	if err != nil {
		return out, err
	}
	return SubmittedRun{RunID: *earlier.RunID, Replayed: true}, nil
}

// checkWaiting refuses what would make a user wait for more than limit things
// at once, with apperr.TooMany. Requests of one user at the same time are
// counted one after the other. A site that names no users has none to bound.
func (db *DB) checkWaiting(ctx context.Context, tx pgx.Tx, submitter string, limit int) error {
	if limit <= 0 || submitter == "" {
		return nil
	}
	if err := db.Q.LockSubmitter(ctx, tx, submitter); err != nil {
		return fmt.Errorf("lock submitter: %w", err)
	}
	n, err := db.Q.WaitingOf(ctx, tx, &storedb.WaitingOfParams{Submitter: submitter, Cap: int32(limit)})
	if err != nil {
		return fmt.Errorf("count what a user has waiting: %w", err)
	}
	if n >= int64(limit) {
		return apperr.New(apperr.TooMany, "wait until one is judged, or cancel one",
			"this user has %d submissions and runs waiting already, and no more are allowed at once", n).At("body.user")
	}
	return nil
}
