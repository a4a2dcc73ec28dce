package store_test

import "testing"

// BenchmarkJobsBesideInteractor makes jobs with and without the trigger that
// looks up what their package asks for, in turn, and says how much more of the
// database's CPU they take with it. Nothing else is in the statement, so it is
// the most that the trigger can be of any.
//
//	go test ./internal/store -run xxx -bench JobsBesideInteractor -benchtime 40x
func BenchmarkJobsBesideInteractor(b *testing.B) {
	const rows = 5000
	f := newFixture(b)
	var digest string
	if err := f.Pool.QueryRow(b.Context(), "select package_digest from problems limit 1").Scan(&digest); err != nil {
		b.Fatal(err)
	}
	session, err := f.Pool.Acquire(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer session.Release()
	exec := func(sql string, args ...any) {
		if _, err := session.Exec(b.Context(), sql, args...); err != nil {
			b.Fatal(err)
		}
	}
	exec("reset role") // triggers are their owner's to change
	spent := map[string]int64{}
	for b.Loop() {
		for _, with := range []string{"disable", "enable"} {
			b.StopTimer()
			exec("delete from jobs")
			exec("alter table jobs " + with + " trigger job_beside_interactor")
			before := f.backendTicks()
			b.StartTimer()
			exec(`insert into jobs (work_id, kind, lane, language, submitter, package_digest, features, memory_bytes, cpu_us)
			      select n, 'prepare', 'prepare', 'c', '', $1, '{prepare}', 268435456, 1000000 from generate_series(1, $2::int) n`, digest, rows)
			b.StopTimer()
			spent[with] += f.backendTicks() - before
			b.StartTimer()
		}
	}
	const usPerTick = 10_000
	per := float64(usPerTick) / float64(b.N) / rows
	b.ReportMetric(float64(spent["disable"])*per, "db-cpu-µs/job-without")
	b.ReportMetric(float64(spent["enable"])*per, "db-cpu-µs/job-with")
	b.ReportMetric(float64(spent["enable"])/float64(spent["disable"]), "with/without")
}
