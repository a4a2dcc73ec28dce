package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// A batch of grants looks each of its jobs up once, however many wait beside
// them and however little the planner knows of them. Joining the batch with the
// waiting jobs by anything but the id compares each with each: a rejudge of
// 1,500 slowed 50 grants to a second, and everybody with them.
func TestABatchOfGrantsTouchesEachJobOnce(t *testing.T) {
	const batch = 50
	for _, backlog := range []int{200, 1500, 6000} {
		t.Run(fmt.Sprintf("beside %d waiting", backlog), func(t *testing.T) {
			f := newFixture(t)
			s := f.submit()
			f.exec(`insert into jobs (judging_id, submission_id, kind, lane, language)
			        select judging_id, -n, kind, lane, language from jobs, generate_series(1, $2) n where id = $1`, s.JobID, backlog)
			p := storedb.GrantLeasesParams{Confirm: time.Minute, Shard: 0, Term: f.term}
			for i := range batch {
				p.JobIds = append(p.JobIds, s.JobID+1+int64(i))
				p.LeaseGens = append(p.LeaseGens, 0)
				p.LeaseTokens = append(p.LeaseTokens, uuid.New())
				p.WorkerIds = append(p.WorkerIds, f.workerID)
				p.Sessions = append(p.Sessions, uuid.New())
				p.RequestIds = append(p.RequestIds, uuid.New())
			}
			tx, err := f.Pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
			if _, err := f.Q.GrantLeases(t.Context(), tx, &p); err != nil {
				t.Fatal(err)
			}
			var granted, looked, read int64
			err = tx.QueryRow(t.Context(), `select (select count(*) from attempts), coalesce(idx_scan, 0), seq_tup_read
			  from pg_stat_xact_user_tables where relname = 'jobs'`).Scan(&granted, &looked, &read)
			if err != nil {
				t.Fatal(err)
			}
			if granted != batch {
				t.Errorf("%d granted, want %d", granted, batch)
			}
			// Twice: to find the row, and to change it. One look at a small table
			// instead is as good.
			if looked > 3*batch || read > int64(backlog)+1 {
				t.Errorf("%d look-ups by index and %d rows read for %d grants:\n%v", looked, read, batch, p.JobIds[:2])
			}
		})
	}
}
