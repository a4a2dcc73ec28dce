package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// NewSubmission is what Submit stores.
type NewSubmission struct {
	// Submission is all of it but for what the other fields say.
	Submission storedb.InsertSubmissionParams
	Files      []SourceFile // beside the main one
	Key        IdempotencyKey
	MaxWaiting int // of the submitter, this one included; 0 is any number
}

// SourceFile is a file of a source beside the main one.
type SourceFile struct {
	Name    string
	Content []byte
}

// Submitted is what Submit stored, or which submission an earlier call with
// the same key did; of that only the id is known.
type Submitted struct {
	SubmissionID int64
	JudgingID    int64
	JobID        int64
	CreatedAt    time.Time
	Replayed     bool
	// What the job asks of a worker, with what its package does.
	Features    []string
	MemoryBytes int64
}

// Submit stores a submission with its source, first judging and job, all or
// nothing. With an idempotency key, a concurrent call with the same key waits
// for this one and then returns the same submission; a key that came with
// another body is apperr.Invalid.
func (db *DB) Submit(ctx context.Context, n NewSubmission) (out Submitted, err error) {
	row := n.Submission
	row.SourceFiles = int32(1 + len(n.Files))
	row.FileNames, row.FileContents = splitFiles(n.Files)
	row.Key, row.BodyHash = n.Key.Text, n.Key.BodyHash
	insert := func(conn storedb.DBTX) error {
		stored, err := db.Q.InsertSubmission(ctx, conn, &row)
		if IsNoRows(err) {
			return errKeyTaken
		}
		if err != nil {
			return fmt.Errorf("insert submission: %w", err)
		}
		out = Submitted{
			SubmissionID: stored.SubmissionID, JudgingID: stored.JudgingID, JobID: stored.JobID, CreatedAt: stored.CreatedAt,
			Features: stored.Features, MemoryBytes: stored.MemoryBytes,
		}
		return nil
	}
	if n.MaxWaiting <= 0 || row.Submitter == "" {
		err = insert(db.Hot)
	} else {
		err = pgx.BeginFunc(ctx, db.Hot, func(tx pgx.Tx) error {
			if err := db.checkWaiting(ctx, tx, row.Submitter, n.MaxWaiting); err != nil {
				return err
			}
			return insert(tx)
		})
	}
	refused := apperr.CodeOf(err) == apperr.TooMany && n.Key.Text != ""
	if err != errKeyTaken && !refused { //nolint:errorlint // compared by identity on purpose: returned as it is above
		return out, err
	}
	earlier, unknown := db.underKey(ctx, row.TokenID, n.Key)
	switch {
	case refused && apperr.CodeOf(unknown) == apperr.Conflict:
		return out, err // it is new, and one too many
	case unknown != nil:
		return out, unknown
	case earlier.SubmissionID == nil:
		return out, otherRequest()
	}
	return Submitted{SubmissionID: *earlier.SubmissionID, Replayed: true}, nil
}

// splitFiles gives the two arrays of a table; both are null without files.
func splitFiles(files []SourceFile) (names []string, contents [][]byte) {
	for _, f := range files {
		names = append(names, f.Name)
		contents = append(contents, append([]byte{}, f.Content...)) // an empty file is not a NULL
	}
	return names, contents
}

// Publish makes a package the live version of a problem without preparing it.
// unchanged says that it was live already; nothing is then written. pkg
// describes the package, whose blob the caller has stored before.
func (db *DB) Publish(ctx context.Context, pkg storedb.InsertPackageParams, name, title string, by *int64) (unchanged bool, err error) {
	err = db.InTx(ctx, func(tx pgx.Tx) error {
		if _, err := db.Q.InsertPackage(ctx, tx, &pkg); err != nil {
			return fmt.Errorf("insert package: %w", err)
		}
		_, unchanged, err = db.publish(ctx, tx, pkg.Digest, name, title, by)
		return err
	})
	return unchanged, err
}

// publish does it for a package that is there.
func (db *DB) publish(ctx context.Context, tx pgx.Tx, digest, name, title string, by *int64) (version int32, unchanged bool, err error) {
	id, err := db.Q.InsertProblem(ctx, tx, &storedb.InsertProblemParams{Name: name, Title: title, PackageDigest: digest})
	version = 1
	switch {
	case IsNoRows(err): // the problem exists
		live, err := db.Q.LockProblem(ctx, tx, name)
		if err != nil {
			return 0, false, fmt.Errorf("lock problem: %w", err)
		}
		if live.PackageDigest == digest {
			return live.Version, true, nil
		}
		id, version = live.ID, live.Version+1
		if err := db.Q.PublishProblem(ctx, tx, &storedb.PublishProblemParams{
			Title: title, Version: version, PackageDigest: digest, ID: id,
		}); err != nil {
			return 0, false, fmt.Errorf("publish problem: %w", err)
		}
	case err != nil:
		return 0, false, fmt.Errorf("insert problem: %w", err)
	}
	err = db.Q.InsertProblemVersion(ctx, tx, &storedb.InsertProblemVersionParams{
		ProblemID: id, Version: version, PackageDigest: digest, PublishedBy: by,
	})
	if err != nil {
		return 0, false, fmt.Errorf("insert version: %w", err)
	}
	return version, false, nil
}

// Enrol trades an invitation for a worker and its token, once. A used, expired
// or unknown invitation is apperr.Unauthorized, a taken name apperr.Conflict;
// the invitation then stays good. The name of an edge worker that has no token
// yet is not taken: that worker goes over to the arbiter, with its id, history
// and pool, which is then the pool that is returned.
func (db *DB) Enrol(ctx context.Context, invitationHash []byte, name string, tokenHash []byte) (id int64, pool string, err error) {
	err = db.InTx(ctx, func(tx pgx.Tx) error {
		pool, err = db.Q.UseInvitation(ctx, tx, invitationHash)
		if IsNoRows(err) {
			return apperr.New(apperr.Unauthorized, "ask an administrator for a new one: gavel worker invite",
				"this invitation is unknown, used or expired")
		}
		if err != nil {
			return fmt.Errorf("use invitation: %w", err)
		}
		id, err = db.Q.InsertWorker(ctx, tx, &storedb.InsertWorkerParams{Name: name, Pool: pool})
		if IsNoRows(err) {
			id, pool, err = db.adoptEdgeWorker(ctx, tx, name)
		}
		if IsNoRows(err) {
			return apperr.New(apperr.Conflict, "choose another name, or use the token of the worker that has it",
				"a worker of this name is enrolled already").At("body.name")
		}
		if err != nil {
			return fmt.Errorf("insert worker: %w", err)
		}
		_, err = db.Q.InsertToken(ctx, tx, &storedb.InsertTokenParams{Kind: "worker", Hash: tokenHash, WorkerID: &id, Pool: pool})
		if err != nil {
			return fmt.Errorf("insert worker token: %w", err)
		}
		return nil
	})
	return id, pool, err
}

// adoptEdgeWorker finds the edge worker of a name that may get its first token;
// pgx.ErrNoRows says that there is none.
func (db *DB) adoptEdgeWorker(ctx context.Context, tx pgx.Tx, name string) (int64, string, error) {
	w, err := db.Q.LockEdgeWorker(ctx, tx, name)
	if err != nil {
		return 0, "", err
	}
	over, err := db.Q.HasToken(ctx, tx, w.ID)
	if err == nil && over {
		err = pgx.ErrNoRows
	}
	return w.ID, w.Pool, err
}
