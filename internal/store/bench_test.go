package store_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// BenchmarkRejudge makes a rejudge of 5,000 judged submissions, which its
// caller waits for.
//
//	go test ./internal/store -run xxx -bench Rejudge -benchtime 5x
func BenchmarkRejudge(b *testing.B) {
	const rows = 5000
	f := newFixture(b)
	f.judged(rows)
	n := store.NewRejudge{
		Filter: storedb.LockRejudgeCandidatesParams{Ids: []int64{}}, Described: json.RawMessage("{}"), Reason: "bench",
		Limits: func(string, string) (json.RawMessage, error) { return json.RawMessage("{}"), nil },
	}
	cpu := f.backendTicks()
	spent := int64(0)
	for b.Loop() {
		made, err := f.Rejudge(b.Context(), n)
		if err != nil || len(made.Jobs) != rows {
			b.Fatalf("%d jobs, %v", len(made.Jobs), err)
		}
		b.StopTimer()
		spent += f.backendTicks() - cpu
		if _, err := f.CancelRejudge(b.Context(), made.RejudgeID, nil); err != nil {
			b.Fatal(err)
		}
		cpu = f.backendTicks()
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N)/rows, "ms/row")
	b.ReportMetric(float64(spent*10)/float64(b.N), "db-cpu-ms/op") // what a machine with nothing else to do would take
}

// backendTicks is the processor time of the pool's sessions, in hundredths of a
// second: unlike the time on the wall it is the same on a busy machine.
func (f *fixture) backendTicks() (total int64) {
	f.t.Helper()
	rows, err := f.Pool.Query(f.t.Context(), "select pid from pg_stat_activity where application_name = 'gavel' and datname = current_database()")
	if err != nil {
		f.t.Fatal(err)
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		f.t.Fatal(err)
	}
	for _, pid := range pids {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // its server is on another machine, or it has just ended
		}
		fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
		for _, at := range []int{11, 12} { // user and system time
			n, err := strconv.ParseInt(fields[at], 10, 64)
			if err != nil {
				f.t.Fatal(err)
			}
			total += n
		}
	}
	return total
}

// judged adds submissions whose judging is done.
func (f *fixture) judged(rows int) {
	f.t.Helper()
	conn := f.owner()
	for _, sql := range []string{
		"set session_replication_role = replica", // the keys are right
		fmt.Sprintf(`insert into submissions (problem_id, language, submitter, source_bytes)
		             select %d, 'c', 'u' || n %% 100, 1 from generate_series(1, %d) n`, f.problem, rows),
		"insert into submission_sources select id, 'x' from submissions",
		fmt.Sprintf(`insert into judgings (submission_id, kind, package_digest, limits, state, verdict, finished_at)
		             select id, 'judge', '%s', '{}', 'done', 'AC', now() from submissions`, f.digest),
		"update submissions s set current_judging_id = g.id from judgings g where g.submission_id = s.id",
		"analyze submissions, judgings, jobs",
	} {
		if _, err := conn.Exec(f.t.Context(), sql); err != nil {
			f.t.Fatalf("%s: %v", sql, err)
		}
	}
}
