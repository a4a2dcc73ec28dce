package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// IdempotencyKey makes a request safe to repeat: of those of one token with one
// key only the first stores anything.
type IdempotencyKey struct {
	Text     string // "" when the caller gave none
	BodyHash []byte // of the request, which must be the same each time
}

// errKeyTaken rolls the transaction of a repeated request back.
var errKeyTaken = errors.New("idempotency key is taken")

// takeKey notes what a key's request makes, in that request's transaction, or
// is errKeyTaken. It waits for a concurrent request with the same key.
func (db *DB) takeKey(ctx context.Context, tx pgx.Tx, tokenID int64, key IdempotencyKey, submissionID, runID *int64) error {
	if key.Text == "" {
		return nil
	}
	rows, err := db.Q.InsertIdempotencyKey(ctx, tx, &storedb.InsertIdempotencyKeyParams{
		TokenID: tokenID, Key: key.Text, BodyHash: key.BodyHash, SubmissionID: submissionID, RunID: runID,
	})
	if err != nil {
		return fmt.Errorf("insert idempotency key: %w", err)
	}
	if rows == 0 {
		return errKeyTaken
	}
	return nil
}

// underKey finds what the first request with a key made.
func (db *DB) underKey(ctx context.Context, tokenID int64, key IdempotencyKey) (*storedb.FindIdempotencyKeyRow, error) {
	earlier, err := db.Q.FindIdempotencyKey(ctx, db.Pool, &storedb.FindIdempotencyKeyParams{TokenID: tokenID, Key: key.Text})
	if IsNoRows(err) {
		return nil, apperr.New(apperr.Conflict, "repeat the request", "what the first request with this key made was deleted just now")
	}
	if err != nil {
		return nil, fmt.Errorf("read idempotency key: %w", err)
	}
	if !bytes.Equal(earlier.BodyHash, key.BodyHash) {
		return nil, otherRequest()
	}
	return earlier, nil
}

func otherRequest() error {
	return apperr.New(apperr.Invalid, "use a new key for a new request",
		"this Idempotency-Key was used with another request").At("header.Idempotency-Key")
}
