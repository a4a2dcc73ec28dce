package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
)

// tryOut runs `gavel run` as a person would, with its streams apart.
func (s *site) tryOut(wantCode int, args ...string) (stdout, stderr string) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), filepath.Join(s.bin, "gavel"), append([]string{"run"}, args...)...)
	cmd.Env = append(os.Environ(), "NO_COLOR=1", "GAVEL_URL="+s.url, "GAVEL_TOKEN_FILE="+filepath.Join(s.dir, "admin-token"))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		s.t.Fatal(err)
	}
	if code != wantCode {
		s.t.Fatalf("gavel run %s: exit code %d, want %d\n%.500s\n%s", strings.Join(args, " "), code, wantCode, &out, &errs)
	}
	return out.String(), errs.String()
}

func write(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestProgramsRunOnInputs(t *testing.T) {
	s := newSite(t)
	s.start("--no-samples", "--max-waiting-per-user", "1")
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	raw := write(t, "raw", string(every))
	cat := write(t, "cat.cpp", "#include <iostream>\nint main(){std::cout<<std::cin.rdbuf()<<std::flush;std::cerr<<\"aside\";return 0;}")
	if out, errs := s.tryOut(0, cat, "-i", raw, "-l", "cpp17"); out != string(every) || errs != "aside" {
		t.Errorf("C++: %d bytes out, standard error %q", len(out), errs)
	}
	huge := write(t, "huge", strings.Repeat("0123456789abcde\n", 1<<16))
	count := write(t, "count.py", "import sys\nprint(len(sys.stdin.buffer.read()))")
	if out, _ := s.tryOut(0, count, "-i", huge, "-i", raw); out != "==> "+huge+" <==\n1048576\n\n==> "+raw+" <==\n256\n" {
		t.Errorf("Python: %q", out)
	}
	flood := write(t, "flood.py", "import sys\nfor _ in range(10 << 10): sys.stdout.write('x' * 1024)")
	if out, errs := s.tryOut(9, flood); out != strings.Repeat("x", 1<<20) || !strings.Contains(errs, "standard output is cut after 1.0 MiB") {
		t.Errorf("a flood of 10 MiB: %d bytes, %s", len(out), errs)
	}
	if out, errs := s.tryOut(9, write(t, "error.py", "print('so far', flush=True)\n1 // 0")); out != "so far\n" ||
		!strings.Contains(errs, "ZeroDivisionError") || !strings.Contains(errs, "exit code 1") {
		t.Errorf("run-time error: %q, %s", out, errs)
	}
	if _, errs := s.tryOut(9, write(t, "loop.cpp", "int main(){for(volatile int i=0;;i++);}"), "-l", "cpp17", "--time", "300ms"); !strings.Contains(errs, "more than its 300 ms of CPU time") &&
		!strings.Contains(errs, "took longer than 1600 ms") { // on a machine that is busy with other things
		t.Errorf("endless loop: %s", errs)
	}
	if out, errs := s.tryOut(9, write(t, "broken.cpp", "int main( {"), "-l", "cpp17"); out != "" || !strings.Contains(errs, "error:") {
		t.Errorf("compile error: %q %s", out, errs)
	}
	s.tryOut(2, cat, "-l", "cpp17", "--memory", "100000")

	// One slot is busy, so the second of a user's waits and the third is too much.
	slow := gavelapi.NewRun{Language: "cpp17", Source: "int main(){for(volatile int i=0;;i++);}", User: "ann", Limits: gavelapi.RunLimits{CPUUS: 9_000_000}}
	first, err := s.api.RunCreate(t.Context(), slow, "")
	if err != nil {
		t.Fatal(err)
	}
	until(t, time.Minute, "the first one runs", func() bool {
		got, err := s.api.RunGet(t.Context(), first.ID, 0)
		return err == nil && got.State == gavelapi.StateRunning
	})
	second, err := s.api.RunCreate(t.Context(), slow, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, errs := s.tryOut(10, cat, "-l", "cpp17", "--user", "ann"); !strings.Contains(errs, "1 submissions and runs waiting") || !strings.Contains(errs, "hint: ") {
		t.Errorf("a user with too much waiting: %s", errs)
	}
	for _, id := range []int64{first.ID, second.ID} {
		if got, err := s.api.RunCancel(t.Context(), id); err != nil || got.State != gavelapi.StateCancelled {
			t.Errorf("%+v %v", got, err)
		}
	}
}

func TestTheWorkerIsKilledInTheMiddleOfARun(t *testing.T) {
	s := newSite(t)
	s.start("--no-samples")
	run, err := s.api.RunCreate(t.Context(), gavelapi.NewRun{
		Language: "cpp17", Source: slowEcho, Inputs: []gavelapi.RunInput{{Content: "17\n"}}, Limits: gavelapi.RunLimits{CPUUS: 9_000_000},
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	until(t, time.Minute, "its program runs", func() bool {
		got, err := s.api.RunGet(t.Context(), run.ID, 0)
		return err == nil && got.State == gavelapi.StateRunning && slowRuns()
	})
	killOne(t, s.cmd.Process.Pid, "gavel-worker")
	until(t, 3*time.Minute, "the run is done", func() bool {
		run, err = s.api.RunGet(t.Context(), run.ID, time.Second)
		return err == nil && gavelapi.Final(run.State)
	})
	if run.State != gavelapi.StateDone || len(run.Results) != 1 || run.Results[0].Stdout != "17\n" {
		t.Fatalf("%+v", run)
	}
	if a := run.Attempts; len(a) != 2 || a[0].Outcome != "expired" || a[1].Outcome != "completed" {
		t.Errorf("%+v", a)
	}
}
