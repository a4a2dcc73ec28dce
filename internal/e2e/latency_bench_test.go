package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
)

const hello = "#include <iostream>\nint main() { int n; std::cin >> n; std::cout << n << '\\n'; }\n"

// BenchmarkHelloWorld measures `gavel submit --wait` of a small C++ program,
// the process of the command included, and says where the time goes:
//
//	total     from starting the command to its end
//	compile   the compile step on the worker
//	run       the box: the test's run, and checking it
//	worker    the rest on the worker: first heartbeat, package, scratch, report
//	dispatch  from the submission's row to the grant's, by the database's clock
//	rest      the command's own start, HTTP, waiting for the verdict
//
// Each is the median over the runs, in ms. Use -benchtime 50x.
func BenchmarkHelloWorld(b *testing.B) {
	s := newSite(b)
	s.start("--no-samples")
	s.publish("echo")
	file := filepath.Join(b.TempDir(), "hello.cpp")
	run := 0
	submit := func() (gavelapi.Submission, time.Duration) {
		run++ // a source of its own each time: nothing comes from the compile cache
		if err := os.WriteFile(file, fmt.Appendf(nil, "%s// %d\n", hello, run), 0o644); err != nil {
			b.Fatal(err)
		}
		cmd := exec.Command(filepath.Join(s.bin, "gavel"), "submit", file, "-p", "echo", "--wait", "-o", "json")
		cmd.Env = append(os.Environ(), "GAVEL_URL="+s.url, "GAVEL_TOKEN_FILE="+filepath.Join(s.dir, "admin-token"))
		start := time.Now()
		out, err := cmd.Output()
		total := time.Since(start)
		var sub gavelapi.Submission
		if err != nil {
			b.Fatal(err)
		}
		if err := json.Unmarshal(out, &sub); err != nil || sub.Verdict != "AC" {
			b.Fatalf("%v\n%s", err, out)
		}
		return sub, total
	}
	languages, err := s.api.LanguageList(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	until(b, 5*time.Minute, "every language is tested", func() bool {
		raw, err := os.ReadFile(filepath.Join(s.dir, "worker.log"))
		return err == nil && bytes.Count(raw, []byte(`"msg":"language is `)) >= len(languages.Languages)
	})
	submit() // the worker is warm afterwards: compiler in the page cache, package fetched
	parts := map[string][]float64{}
	note := func(name string, d time.Duration) {
		parts[name] = append(parts[name], float64(d.Microseconds())/1000)
	}
	for b.Loop() {
		sub, total := submit()
		stages := sub.Detail.Provenance.Stages
		us := func(names ...string) (d time.Duration) {
			for _, n := range names {
				d += time.Duration(stages[n]) * time.Microsecond
			}
			return d
		}
		attempt := sub.Detail.Attempts[len(sub.Detail.Attempts)-1]
		dispatch := attempt.GrantedAt.Sub(sub.CreatedAt)
		onWorker := attempt.EndedAt.Sub(attempt.GrantedAt)
		compile, run := us("compile"), us("run", "check")
		note("total", total)
		note("compile", compile)
		note("run", run)
		note("worker", onWorker-compile-run)
		note("dispatch", dispatch)
		note("rest", total-dispatch-onWorker)
	}
	for name, values := range parts {
		slices.Sort(values)
		b.ReportMetric(values[len(values)/2], name+"-ms")
	}
	b.ReportMetric(parts["total"][len(parts["total"])*95/100], "total-p95-ms")
	b.ReportMetric(0, "ns/op") // the medians above say it
}
