package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/pgserver/pgbin"
	"github.com/gavel-oj/gavel/internal/sandbox/linuxbox"
	"github.com/gavel-oj/gavel/internal/store/storetest"
	"github.com/gavel-oj/gavel/internal/testkit"
)

func TestMain(m *testing.M) {
	linuxbox.Init()
	code := storetest.Run(m)
	testkit.RemovePrograms()
	os.Exit(code)
}

// site is `gavel up` on a data directory.
type site struct {
	t   testing.TB
	bin string
	dir string

	cmd    *exec.Cmd
	stderr *lockedBuffer
	api    *client.Client
	url    string
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newSite(t testing.TB) *site {
	t.Helper()
	if _, err := pgbin.Find(t.Context(), pgbin.Options{}); err != nil {
		testkit.Missing(t, testkit.PG, "%v", err)
	}
	if os.Geteuid() != 0 {
		testkit.Missing(t, testkit.Cgroup, "the box needs root")
	}
	bin, err := testkit.Programs()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "gavel-e2e-") // not t.TempDir: the database's user must be able to walk there
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, bin: bin, dir: filepath.Join(dir, "data")}
	t.Cleanup(func() {
		s.stop()
		if t.Failed() {
			for _, name := range []string{"gavel.log", "worker.log"} {
				raw, _ := os.ReadFile(filepath.Join(s.dir, name))
				t.Logf("%s:\n%s", name, tail(string(raw), 60))
			}
		}
		_ = os.RemoveAll(dir)
	})
	return s
}

func tail(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

var upAt = regexp.MustCompile(`gavel is up at (\S+)`)

// startLimit is far more than a start takes, self-tests included, on a machine
// that does many other things: a slow start is not what these tests look for.
const startLimit = 10 * time.Minute

// start runs gavel up and waits until it says that it is up.
func (s *site) start(args ...string) {
	s.t.Helper()
	s.stderr = &lockedBuffer{}
	s.cmd = exec.Command(filepath.Join(s.bin, "gavel"),
		append([]string{"up", "--data-dir", s.dir, "--listen", "127.0.0.1:0", "--slots", "1"}, args...)...)
	s.cmd.Stderr, s.cmd.Stdout = s.stderr, s.stderr
	s.cmd.Env = append(os.Environ(), "NO_COLOR=1")
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	until(s.t, startLimit, "gavel up is up", func() bool {
		if m := upAt.FindStringSubmatch(s.stderr.String()); m != nil {
			s.url = m[1]
			return true
		}
		if s.cmd.Process.Signal(syscall.Signal(0)) != nil {
			s.t.Fatalf("gavel up ended:\n%s", s.stderr)
		}
		return false
	})
	token, err := os.ReadFile(filepath.Join(s.dir, "admin-token"))
	if err != nil {
		s.t.Fatal(err)
	}
	if s.api, err = client.New(s.url, strings.TrimSpace(string(token)), client.Options{}); err != nil {
		s.t.Fatal(err)
	}
}

// stop interrupts gavel up, as Ctrl-C does, and returns its exit error.
func (s *site) stop() error {
	if s.cmd == nil || s.cmd.ProcessState != nil {
		return nil
	}
	_ = s.cmd.Process.Signal(os.Interrupt)
	killer := time.AfterFunc(time.Minute, func() { _ = s.cmd.Process.Kill() })
	defer killer.Stop()
	return s.cmd.Wait()
}

func until(t testing.TB, limit time.Duration, what string, look func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !look() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited %v in vain: %s", limit, what)
		}
	}
}

// gavel runs the client as a person would and returns its output.
func (s *site) gavel(wantCode int, args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), filepath.Join(s.bin, "gavel"), args...)
	cmd.Env = append(os.Environ(), "NO_COLOR=1", "GAVEL_URL="+s.url, "GAVEL_TOKEN_FILE="+filepath.Join(s.dir, "admin-token"))
	out, err := cmd.CombinedOutput()
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		s.t.Fatal(err)
	}
	if code != wantCode {
		s.t.Fatalf("gavel %s: exit code %d, want %d\n%s", strings.Join(args, " "), code, wantCode, out)
	}
	return string(out)
}

// publish imports a problem whose tests echo their input, with a generous limit.
func (s *site) publish(name string) {
	s.t.Helper()
	dir := filepath.Join(s.t.TempDir(), name)
	for file, content := range map[string]string{
		"problem.yaml":      "problem_format_version: 2025-09\nname: Echo\nuuid: 7c0ffee0-0000-4000-8000-000000000001\nlimits:\n  time_limit: 20\n  memory: 256\n",
		"data/secret/1.in":  "1\n",
		"data/secret/1.ans": "1\n",
	} {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	s.gavel(0, "problem", "import", dir, "--no-verify") // its workers, if it has some yet, are a test's own business
}

// slowEcho computes for some seconds and then answers rightly, so that there is
// a middle of a judging to do harm in.
const slowEcho = `#include <cstdio>
#include <ctime>
int main() {
    int n; scanf("%d", &n);
    volatile unsigned long x = 0;
    while (clock() < 3 * CLOCKS_PER_SEC) for (int i = 0; i < 1000000; i++) x += i;
    printf("%d\n", n);
}
`

func (s *site) submit(source string) int64 {
	s.t.Helper()
	sub, err := s.api.SubmissionCreate(s.t.Context(), gavelapi.NewSubmission{Problem: "echo", Language: "cpp17", Source: source}, "")
	if err != nil {
		s.t.Fatal(err)
	}
	return sub.ID
}

// awaitRunning waits until the program of a submission runs in its box.
func (s *site) awaitRunning(id int64) gavelapi.Submission {
	s.t.Helper()
	var sub *gavelapi.Submission
	until(s.t, time.Minute, "the submission is being judged", func() bool {
		var err error
		sub, err = s.api.SubmissionGet(s.t.Context(), id, 0)
		return err == nil && sub.State == gavelapi.StateJudging
	})
	until(s.t, time.Minute, "its program runs", func() bool { return slowRuns() })
	return *sub
}

// slowRuns says whether some box runs a program that burns CPU: the pids of
// boxes are not visible by name, so it looks for its mapped user.
func slowRuns() bool {
	dirs, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		return false
	}
	for _, f := range dirs {
		raw, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		if m := uidLine.FindSubmatch(raw); m != nil {
			if uid, _ := strconv.Atoi(string(m[1])); uid >= 100_000 && bytes.Contains(raw, []byte("State:\tR")) && !bytes.Contains(raw, []byte("Name:\tcc1plus")) {
				return true
			}
		}
	}
	return false
}

var uidLine = regexp.MustCompile(`(?m)^Uid:\t(\d+)`)

// final waits for the verdict.
func (s *site) final(id int64) gavelapi.Submission {
	s.t.Helper()
	var sub *gavelapi.Submission
	until(s.t, 3*time.Minute, "the submission is final", func() bool {
		got, err := s.api.SubmissionGet(s.t.Context(), id, time.Second)
		if err != nil {
			return false // something was killed
		}
		sub = got
		return gavelapi.Final(got.State)
	})
	return *sub
}

// wantOnce checks that a submission got its verdict once, whatever happened.
func wantOnce(t *testing.T, sub gavelapi.Submission, verdict string) {
	t.Helper()
	completed := 0
	for _, a := range sub.Detail.Attempts {
		if a.Outcome == "completed" {
			completed++
		}
	}
	if sub.State != gavelapi.StateDone || sub.Verdict != verdict || completed != 1 || len(sub.Detail.Tests) != 1 {
		t.Errorf("submission %d: %s %s, %d completed attempts of %d, %d tests; fault %+v",
			sub.ID, sub.State, sub.Verdict, completed, len(sub.Detail.Attempts), len(sub.Detail.Tests), sub.Fault)
	}
}

// children lists the direct child processes of a process by name.
func children(pid int, name string) (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		raw, err := os.ReadFile(d + "/stat")
		if err != nil {
			continue
		}
		open, end := bytes.IndexByte(raw, '('), bytes.LastIndexByte(raw, ')')
		fields := strings.Fields(string(raw[end+1:]))
		if string(raw[open+1:end]) == name && fields[1] == strconv.Itoa(pid) {
			child, _ := strconv.Atoi(filepath.Base(d))
			pids = append(pids, child)
		}
	}
	return pids
}

func killOne(t *testing.T, parent int, name string) {
	t.Helper()
	pids := children(parent, name)
	if len(pids) != 1 {
		t.Fatalf("%d processes %q below %d", len(pids), name, parent)
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}
