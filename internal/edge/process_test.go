package edge_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/internal/lease"
	"github.com/gavel-oj/gavel/internal/sandbox/linuxbox"
	"github.com/gavel-oj/gavel/internal/serve"
	"github.com/gavel-oj/gavel/internal/store/storetest"
	"github.com/gavel-oj/gavel/internal/testkit"
)

// process is a program of ours with what it says.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	mu   sync.Mutex
	said bytes.Buffer
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.Write(b)
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

func (p *process) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

func start(t testing.TB, name string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(name, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGKILL)
		<-p.done
		if t.Failed() {
			lines := strings.Split(p.text(), "\n")
			t.Logf("%s:\n%s", strings.Join(args, " "), strings.Join(lines[max(0, len(lines)-40):], "\n"))
		}
	})
	return p
}

// fleet is a database with the problem echo, and the program.
type fleet struct {
	*stand
	bin      string
	packages string
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	provider, err := linuxbox.Open(linuxbox.Config{})
	if err != nil {
		testkit.Missing(t, testkit.Cgroup, "%v", err)
	}
	_ = provider.Close()
	dir := t.TempDir()
	f := &fleet{bin: filepath.Join(dir, "gavel"), packages: filepath.Join(dir, "data", "blobs", "packages")}
	buildGavel(t, f.bin)
	url := storetest.DB(t)
	f.importEcho(t, url, dir)
	f.stand = standOnly(t, url)
	return f
}

func buildGavel(t *testing.T, to string) {
	t.Helper()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", to, "./cmd/gavel")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// importEcho imports with an arbiter that is gone afterwards: these tests are
// of workers without one.
func (f *fleet) importEcho(t *testing.T, url, dir string) {
	t.Helper()
	srv, err := serve.Start(t.Context(), serve.Config{
		DatabaseURL: url, DataDir: filepath.Join(dir, "data"), Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
		Lease: lease.Settings{TTL: 6 * time.Second, Heartbeat: time.Second, Confirm: 5 * time.Second, AttemptCap: 3, Sweep: time.Second, ClaimWait: time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(dir, "token")
	if _, err := srv.AdminToken(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	echo := filepath.Join(dir, "echo")
	for name, content := range map[string]string{
		"problem.yaml":      "problem_format_version: 2025-09\nname: Echo\nuuid: 7c0ffee0-0000-4000-8000-000000000001\nlimits:\n  time_limit: 20\n  memory: 256\n",
		"data/secret/1.in":  "1\n",
		"data/secret/1.ans": "1\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(echo, name)), 0o750); err != nil {
			t.Fatal(err)
		}
		writeFile(t, echo, name, content)
	}
	cmd := exec.CommandContext(t.Context(), f.bin, "problem", "import", "--url", srv.URL(), "--token-file", token, "--no-verify", echo)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	db := standOnly(t, url)
	eventually(t, time.Minute, "the arbiter's settings are written", func() bool {
		return db.number("select count(*) from lease_settings where ttl = '6 s'") == 1
	})
	if err := srv.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// spin answers rightly after two seconds of work.
const spin = `#include <cstdio>
#include <ctime>
int main() { int n; scanf("%d", &n); volatile unsigned long x = 0; while (clock() < 2 * CLOCKS_PER_SEC) for (int i = 0; i < 1000000; i++) x += i; printf("%d\n", n); }
`

func (f *fleet) worker(name string) *process {
	f.t.Helper()
	return start(f.t, f.bin, "edge-worker", "--database-url", f.url, "--name", name, "--slots", "1", "--packages-dir", f.packages,
		"--state-dir", filepath.Join(f.t.TempDir(), name), "--poll", "100ms")
}

func (f *fleet) submit() int64 {
	f.t.Helper()
	return int64(f.number("select gavel.submit('echo', 'cpp17', $1)", spin))
}

// holder is who judges a submission, once it has shown that it got it.
func (f *fleet) holder(id int64) (name string) {
	f.t.Helper()
	eventually(f.t, 5*time.Minute, "somebody judges it", func() bool {
		rows := f.query("select w.name from jobs j join workers w on w.id = j.worker_id where j.submission_id = $1 and j.confirmed", id)
		if len(rows) == 1 {
			name = rows[0]
		}
		return name != ""
	})
	return name
}

func (f *fleet) history(id int64) string {
	f.t.Helper()
	return strings.Join(f.query("select w.name || ' ' || a.outcome from attempts a join workers w on w.id = a.worker_id where a.submission_id = $1 order by a.lease_gen", id), ", ")
}

func (f *fleet) wantAC(id int64) {
	f.t.Helper()
	eventually(f.t, 5*time.Minute, "it is judged", func() bool {
		return f.number("select count(*) from gavel.verdicts where submission_id = $1 and state in ('done', 'system_error')", id) == 1
	})
	if v := f.text("select verdict from gavel.verdicts where submission_id = $1", id); v != "AC" {
		f.t.Errorf("verdict %s; %s", v, f.history(id))
	}
}

// Real processes, no arbiter: a worker is killed, frozen past its lease, told
// to stop. Its work goes to the other one, once.
func TestEdgeWorkersThatAreKilledFrozenAndStopped(t *testing.T) {
	f := newFleet(t)
	workers := map[string]*process{"a": f.worker("a"), "b": f.worker("b")}
	other := map[string]string{"a": "b", "b": "a"}
	ready := func(name string) {
		t.Helper()
		eventually(t, 5*time.Minute, "it looks for work", func() bool { return strings.Contains(workers[name].text(), "known to the database") })
	}
	ready("a")
	ready("b")

	t.Run("under the name of a worker that is enrolled", func(t *testing.T) {
		f.exec("insert into workers (name) values ('taken')")
		p := f.worker("taken")
		select { // and not asked for again and again, as if somebody were about to go
		case <-p.done:
		case <-time.After(5 * time.Minute):
			t.Fatal("it goes on")
		}
		if code := p.cmd.ProcessState.ExitCode(); code != 6 || !strings.Contains(p.text(), "a worker of this name is enrolled with the arbiter") {
			t.Errorf("it ended with %d", code)
		}
	})
	t.Run("frozen past its lease", func(t *testing.T) {
		id := f.submit()
		name := f.holder(id)
		workers[name].signal(t, syscall.SIGSTOP)
		f.wantAC(id)
		workers[name].signal(t, syscall.SIGCONT)
		if want, got := name+" expired, "+other[name]+" completed", f.history(id); got != want {
			t.Errorf("history %q, want %q", got, want)
		}
		eventually(t, time.Minute, "the frozen one drops its work", func() bool { return strings.Contains(workers[name].text(), "its work is dropped") })
		f.wantAC(f.submit()) // and all work on
	})
	t.Run("told to stop", func(t *testing.T) {
		id := f.submit()
		name := f.holder(id)
		began := time.Now()
		workers[name].signal(t, syscall.SIGTERM)
		eventually(t, time.Minute, "the other one has it", func() bool { return strings.HasPrefix(f.history(id), name+" released, "+other[name]) })
		t.Logf("handed over after %v", time.Since(began))
		<-workers[name].done
		if code := workers[name].cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("it ended with %d", code)
		}
		f.wantAC(id)
		if n := f.number("select count(*) from attempts where submission_id = $1", id); n != 2 {
			t.Errorf("history %s", f.history(id))
		}
		workers[name] = f.worker(name)
		ready(name)
	})
	t.Run("killed", func(t *testing.T) {
		id := f.submit()
		name := f.holder(id)
		workers[name].signal(t, syscall.SIGKILL)
		f.wantAC(id)
		if want, got := name+" expired, "+other[name]+" completed", f.history(id); got != want {
			t.Errorf("history %q, want %q", got, want)
		}
	})
	if n := f.number("select count(*) from judgings where state <> 'done'"); n != 0 {
		t.Errorf("%d judgings are open or failed", n)
	}
}
