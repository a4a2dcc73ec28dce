package store_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// BenchmarkCycle is what the statements of a full cycle cost the database, by
// the size of their batches: processor time of its sessions, which other work
// on the machine does not change.
//
//	go test ./internal/store -run xxx -bench Cycle -benchtime 2000x
func BenchmarkCycle(b *testing.B) {
	for _, batch := range []int{1, 10, 100, 500} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			f := newFixture(b)
			spent := map[string]int64{}
			timed := func(step string, do func() error) {
				before := f.backendTicks()
				if err := do(); err != nil {
					b.Fatalf("%s: %v", step, err)
				}
				spent[step] += f.backendTicks() - before
			}
			jobs := make([]int64, b.N)
			timed("submit", func() error {
				for i := range jobs {
					s, err := f.Submit(b.Context(), f.submission(""))
					if err != nil {
						return err
					}
					jobs[i] = s.JobID
				}
				return nil
			})
			var batches [][]int64
			tokens := make([][]uuid.UUID, 0, len(batches))
			workers := make([]int64, batch)
			for i := range workers {
				workers[i] = f.workerID
			}
			for len(jobs) > 0 {
				n := min(batch, len(jobs))
				batches, tokens = append(batches, jobs[:n]), append(tokens, newTokens(n))
				jobs = jobs[n:]
			}
			timed("grant", func() error {
				for i, ids := range batches {
					n, err := count(f.Q.GrantLeases(b.Context(), f.Hot, &storedb.GrantLeasesParams{
						JobIds: ids, LeaseGens: make([]int64, len(ids)), LeaseTokens: tokens[i], WorkerIds: workers[:len(ids)],
						Sessions: newTokens(len(ids)), RequestIds: newTokens(len(ids)), Confirm: time.Minute, Term: f.term,
					}))
					if err != nil || n != len(ids) {
						return fmt.Errorf("%d of %d: %w", n, len(ids), err)
					}
				}
				return nil
			})
			timed("heartbeat", func() error {
				for i, ids := range batches {
					n, err := count(f.Q.ExtendLeases(b.Context(), f.Hot, &storedb.ExtendLeasesParams{
						Ttl: time.Minute, JobIds: ids, LeaseTokens: tokens[i], WorkerIds: workers[:len(ids)],
					}))
					if err != nil || n != len(ids) {
						return fmt.Errorf("%d of %d: %w", n, len(ids), err)
					}
				}
				return nil
			})
			timed("result", func() error {
				for i, ids := range batches {
					p := storedb.RecordResultsParams{JobIds: ids, LeaseTokens: tokens[i], WorkerIds: workers[:len(ids)]}
					for range ids {
						p.Verdicts = append(p.Verdicts, "AC")
						p.CPUUs, p.WallUs, p.MemoryBytes = append(p.CPUUs, 1), append(p.WallUs, 1), append(p.MemoryBytes, 1)
						p.Compiles, p.Provenances = append(p.Compiles, json.RawMessage("{}")), append(p.Provenances, json.RawMessage("{}"))
						p.Tests = append(p.Tests, tenTests)
					}
					n, err := count(f.Q.RecordResults(b.Context(), f.Hot, &p))
					if err != nil || n != len(ids) {
						return fmt.Errorf("%d of %d: %w", n, len(ids), err)
					}
				}
				return nil
			})
			for step, ticks := range spent {
				b.ReportMetric(float64(ticks)*10_000/float64(b.N), step+"-db-µs")
			}
		})
	}
}

var tenTests = func() json.RawMessage {
	var rows []map[string]any
	for i := range 10 {
		rows = append(rows, map[string]any{"name": fmt.Sprintf("secret/%02d", i+1), "verdict": "AC", "cpu_us": 1000, "wall_us": 1000, "memory_bytes": 1 << 20})
	}
	raw, err := json.Marshal(rows)
	if err != nil {
		panic(err)
	}
	return raw
}()

func newTokens(n int) []uuid.UUID {
	tokens := make([]uuid.UUID, n)
	for i := range tokens {
		tokens[i] = uuid.New()
	}
	return tokens
}
