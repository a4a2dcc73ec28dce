package dispatch

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// crowd is a board with jobs of many users, problems and sizes that wait, and
// workers that wait for something else.
func crowd(jobs, workers int) *Board {
	b := New(DefaultPolicy)
	languages := []string{"c", "cpp17", "cpp20", "java", "python3", "pypy3", "go", "rust", "pascal", "csharp"}
	for i := range jobs {
		b.AddJob(Job{
			ID: int64(i) + 1, Lane: []Lane{Judge, Judge, Judge, Rejudge}[i%4], Class: i % 2,
			Submitter: fmt.Sprintf("user-%d", i%5000), Language: languages[i%len(languages)], Problem: int64(i % 300),
			Package: fmt.Sprintf("sha256:%064d", i%300), Needs: Needs{MemoryBytes: int64(64<<(i%4)) << 20, Tight: i%3 == 0},
		})
	}
	for i := range workers {
		w := Worker{
			ID: int64(i) + 1, Name: fmt.Sprintf("worker-%d", i), Slots: 4, Rank: i % 3, MemoryBytes: int64(i%7+4) << 30,
			Languages: []string{"haskell", "lua"},
		}
		for n := range 20 {
			w.Cached = append(w.Cached, fmt.Sprintf("sha256:%064d", (i+n*7)%300))
		}
		b.SetWorker(w, start)
		b.AddClaim(Claim{ID: w.ID, Worker: w.ID, Slots: 4}, start)
	}
	return b
}

// BenchmarkDecision is one decision beside 100,000 waiting jobs and 10,000
// waiting workers that do not match: a job arrives, is given away and ends.
func BenchmarkDecision(b *testing.B) {
	for _, size := range []struct{ jobs, workers int }{{100, 100}, {100_000, 10_000}} {
		b.Run(fmt.Sprintf("jobs=%d/workers=%d", size.jobs, size.workers), func(b *testing.B) {
			board := crowd(size.jobs, size.workers)
			id := int64(1_000_000)
			now := start
			b.ReportAllocs()
			for b.Loop() {
				id++
				now = now.Add(time.Millisecond)
				board.AddJob(Job{ID: id, Lane: Judge, Submitter: fmt.Sprint(id % 1000), Language: "haskell", Needs: Needs{MemoryBytes: 256 << 20}, Package: fmt.Sprintf("sha256:%064d", id%300)})
				grants, _ := board.Match(now, 200)
				if len(grants) != 1 {
					b.Fatalf("%d grants", len(grants))
				}
				c := board.claims[grants[0].Claim]
				workerID := c.worker.ID
				board.RemoveClaim(c.id, now)
				board.Release(id, 0, now)
				board.AddClaim(Claim{ID: id, Worker: workerID, Slots: 4}, now)
			}
		})
	}
}

// BenchmarkBacklog is one decision while everything waits for a slot: a worker
// asks, gets the next of 100,000 jobs, and as many come as go.
func BenchmarkBacklog(b *testing.B) {
	board := crowd(100_000, 0)
	for i := range 50 {
		board.SetWorker(Worker{ID: int64(i) + 1, Slots: 4, Languages: []string{"c", "cpp17", "cpp20", "java", "python3", "pypy3", "go", "rust", "pascal", "csharp"}, MemoryBytes: 8 << 30}, start)
	}
	id := int64(1_000_000)
	now := start
	b.ReportAllocs()
	for b.Loop() {
		id++
		now = now.Add(time.Millisecond)
		board.AddClaim(Claim{ID: id, Worker: id%50 + 1, Slots: 1}, now)
		grants, _ := board.Match(now, 200)
		if len(grants) != 1 {
			b.Fatalf("%d grants", len(grants))
		}
		board.RemoveClaim(id, now)
		board.Release(grants[0].Job.ID, 0, now)
		j := grants[0].Job
		j.ID = id
		board.AddJob(j)
	}
}

// BenchmarkMemory reports what a waiting job and a waiting worker take.
func BenchmarkMemory(b *testing.B) {
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	const jobs, workers = 100_000, 10_000
	for b.Loop() {
		before := heap()
		onlyJobs := crowd(jobs, 0)
		b.ReportMetric((heap()-before)/jobs, "B/job")
		before = heap()
		both := crowd(0, workers)
		b.ReportMetric((heap()-before)/workers, "B/worker")
		runtime.KeepAlive(onlyJobs)
		runtime.KeepAlive(both)
	}
}

// BenchmarkReasons is what saying why everything waits takes, once a second
// under the leader's lock.
func BenchmarkReasons(b *testing.B) {
	for _, size := range []struct{ jobs, workers int }{{100, 100}, {100_000, 10_000}} {
		b.Run(fmt.Sprintf("jobs=%d/workers=%d", size.jobs, size.workers), func(b *testing.B) {
			board := crowd(size.jobs, size.workers)
			for b.Loop() {
				if n := len(board.Reasons(start)); n != len(board.shapes) {
					b.Fatalf("%d reasons for %d shapes", n, len(board.shapes))
				}
			}
			b.ReportMetric(float64(len(board.shapes)), "shapes")
		})
	}
}
