package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// ReclaimParams say under which term and cap expired leases are taken back.
type ReclaimParams struct {
	Shard      int32
	Term       int64
	AttemptCap int
	Fault      json.RawMessage // stored with judgings that are given up
}

// Reclaim ends every lease past its time: requeued ones may be tried again,
// ended ones have used up their attempts.
func (db *DB) Reclaim(ctx context.Context, p ReclaimParams) (requeued []*storedb.RequeueExpiredRow, ended []*storedb.GiveUpExpiredRow, err error) {
	err = db.InTx(ctx, func(tx pgx.Tx) error {
		requeued, err = db.Q.RequeueExpired(ctx, tx, &storedb.RequeueExpiredParams{
			AttemptCap: int32(p.AttemptCap), Shard: p.Shard, Term: p.Term,
		})
		if err != nil {
			return fmt.Errorf("requeue expired leases: %w", err)
		}
		ended, err = db.Q.GiveUpExpired(ctx, tx, &storedb.GiveUpExpiredParams{
			AttemptCap: int32(p.AttemptCap), Shard: p.Shard, Term: p.Term, Fault: p.Fault,
		})
		if err != nil {
			return fmt.Errorf("give up expired leases: %w", err)
		}
		return nil
	})
	return requeued, ended, err
}

// IsNoRows says that a query for one row found none.
func IsNoRows(err error) bool { return errors.Is(err, pgx.ErrNoRows) }
