package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/sandbox/linuxbox"
	"github.com/gavel-oj/gavel/internal/testkit"
	"github.com/gavel-oj/gavel/internal/worker/arbitertest"
)

// asProgram makes the test binary the program.
const asProgram = "GAVEL_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	linuxbox.Init()
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// invoke runs a command line in this process.
func invoke(t *testing.T, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = execute(t.Context(), args, world{out: &out, err: &errs, environ: environ, exit: func(int) { t.Error("exit called") }})
	return code, out.String(), errs.String()
}

func TestWrongUsageExitsTwoWithAHint(t *testing.T) {
	dir := t.TempDir()
	for name, tc := range map[string]struct {
		args    []string
		environ []string
		want    string
	}{
		"unknown flag":           {[]string{"run", "--slot", "3"}, nil, "unknown flag --slot"},
		"no address":             {[]string{"run", "--state-dir", dir}, nil, "GAVEL_URL"},
		"address is none":        {[]string{"run", "--url", "localhost", "--state-dir", dir}, nil, "not an http or https URL"},
		"slots are no number":    {[]string{"run", "--slots", "many", "--state-dir", dir}, nil, "--slots is not a number that can be"},
		"slots of a variable":    {[]string{"run", "--state-dir", dir}, []string{"GAVEL_WORKER_SLOTS=0"}, "GAVEL_WORKER_SLOTS is not a number that can be"},
		"grace is no duration":   {[]string{"run", "--grace", "30", "--state-dir", dir}, nil, "--grace is not a duration"},
		"cache is no size":       {[]string{"run", "--cache-bytes", "4GB", "--state-dir", dir}, nil, "--cache-bytes is not a size"},
		"log is no form":         {[]string{"run", "--log", "xml", "--state-dir", dir}, nil, "--log is not one of the choices"},
		"file is not there":      {[]string{"run", "--config", dir + "/none.yaml"}, nil, "the settings cannot be read"},
		"enroll without a code":  {[]string{"enroll", "--url", "http://127.0.0.1:1", "--state-dir", dir}, nil, "no invitation is given"},
		"password in the URL":    {[]string{"run", "--url", "http://u:secretpw@h", "--state-dir", dir}, nil, "never into the URL"},
		"config in the variable": {[]string{"run"}, []string{"GAVEL_WORKER_CONFIG=" + dir + "/none.yaml"}, "the settings cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := invoke(t, tc.environ, tc.args...)
			if code != exitUsage || !strings.Contains(stderr, tc.want) || !strings.Contains(stderr, "hint: ") {
				t.Errorf("exit code %d: %s", code, stderr)
			}
			if strings.Contains(stderr, "secretpw") {
				t.Errorf("it echoes a password: %s", stderr)
			}
		})
	}
}

func TestHelpAndVersion(t *testing.T) {
	if code, out, _ := invoke(t, nil, "run", "--help"); code != 0 || !strings.Contains(out, "--grace") || !strings.Contains(out, "$GAVEL_URL") {
		t.Errorf("help: exit code %d\n%s", code, out)
	}
	if code, out, stderr := invoke(t, nil); code != exitUsage || out != "" || !strings.Contains(stderr, "enroll") {
		t.Errorf("no arguments: exit code %d\n%s%s", code, out, stderr)
	}
	code, out, _ := invoke(t, nil, "version", "-o", "json")
	var v gavelapi.Version
	if err := json.Unmarshal([]byte(out), &v); code != 0 || err != nil || v.Protocol != gavelapi.ProtocolVersion {
		t.Errorf("version: exit code %d, %v\n%s", code, err, out)
	}
}

func TestEnrollKeepsTheTokenForItself(t *testing.T) {
	arb := arbitertest.New()
	srv := httptest.NewServer(arb)
	defer srv.Close()
	dir := filepath.Join(t.TempDir(), "state")
	args := []string{"enroll", "--url", srv.URL, "--state-dir", dir, "--name", "home-1"}

	code, _, stderr := invoke(t, []string{"GAVEL_WORKER_INVITATION=wrong"}, args...)
	if code != exitNotAllowed || exists(filepath.Join(dir, tokenName)) {
		t.Fatalf("a wrong invitation: exit code %d: %s", code, stderr)
	}
	good := []string{"GAVEL_WORKER_INVITATION=" + arbitertest.Invitation}
	code, stdout, stderr := invoke(t, good, args...)
	if code != 0 || !strings.Contains(stdout, "enrolled as home-1") || strings.Contains(stdout+stderr, arbitertest.Token) {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	info, err := os.Stat(filepath.Join(dir, tokenName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("token file: %v, %v", info.Mode(), err)
	}
	if token, err := readToken(filepath.Join(dir, tokenName)); err != nil || token != arbitertest.Token {
		t.Errorf("token %q, %v", token, err)
	}
	// A run needs no flag but where its things are.
	s, err := resolve(common{StateDir: dir}, given{}, nil)
	if err != nil || s.url != srv.URL || s.name != "home-1" {
		t.Errorf("settings %+v, %v", s, err)
	}
	if code, _, stderr := invoke(t, good, args...); code != exitConflict || !strings.Contains(stderr, "--force") {
		t.Errorf("a second time: exit code %d: %s", code, stderr)
	}
	if code, _, stderr := invoke(t, good, append(args, "--force")...); code != 0 {
		t.Errorf("with --force: exit code %d: %s", code, stderr)
	}
}

func TestEnrollWithoutAnArbiterExitsSeven(t *testing.T) {
	code, _, stderr := invoke(t, nil, "enroll", "--url", "http://127.0.0.1:1", "--state-dir", t.TempDir(), "--invitation", "x")
	if code != exitUnreachable || !strings.Contains(stderr, "hint: is the arbiter running there") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// program is the real one, as a process.
type program struct {
	cmd  *exec.Cmd
	done chan struct{}
	mu   sync.Mutex
	log  bytes.Buffer
}

func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *program) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

func start(t *testing.T, environ []string, args ...string) *program {
	t.Helper()
	p := &program{cmd: exec.Command(os.Args[0], args...), done: make(chan struct{})}
	p.cmd.Env = append(append(os.Environ(), asProgram+"=1"), environ...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(unix.SIGKILL)
		<-p.done
		if t.Failed() {
			t.Logf("gavel-worker:\n%s", p.text())
		}
	})
	return p
}

func (p *program) exit(t *testing.T, limit time.Duration) int {
	t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		t.Fatalf("still there after %v", limit)
		return 0
	}
}

// needBox skips where no box can be made.
func needBox(t *testing.T) {
	t.Helper()
	provider, err := linuxbox.Open(linuxbox.Config{})
	if err != nil {
		testkit.Missing(t, testkit.Cgroup, "%v", err)
	}
	if err := provider.Close(); err != nil {
		t.Fatal(err)
	}
}

// The whole program: it enrols at its first run, judges in real boxes, refuses
// a second process, hands back at SIGTERM, and judges again without a word.
func TestProgramEnrolsJudgesAndStops(t *testing.T) {
	needBox(t)
	arb := arbitertest.New()
	arb.Heartbeat = 200 * time.Millisecond
	srv := httptest.NewServer(arb)
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
		arb.Check(t)
	})
	state := filepath.Join(t.TempDir(), "state")
	digest := arb.AddPackage(t, "42", 2, 10)
	args := []string{"run", "--url", srv.URL, "--state-dir", state, "--slots", "1"}
	limits := gavelapi.Limits{CPUUS: 20e6, WallUS: 41e6, MemoryBytes: 256 << 20, OutputBytes: 1 << 20, Processes: 64}
	source := func(body string) gavelapi.Lease {
		return gavelapi.Lease{Language: "cpp17", Source: []byte("#include <cstdio>\nint main() { " + body + " }\n"), Limits: limits}
	}

	p := start(t, []string{"GAVEL_WORKER_INVITATION=" + arbitertest.Invitation, "GAVEL_WORKER_NAME=local"}, args...)
	right, wrong := arb.Submit(digest, source(`puts("42");`)), arb.Submit(digest, source(`puts("41");`))
	broken := arb.Submit(digest, source(`return`))
	for id, want := range map[int64]string{right: "AC", wrong: "WA", broken: "CE"} {
		if job := arb.AwaitState(t, 5*time.Minute, id, "done"); job.Report.Verdict != want {
			t.Errorf("verdict %s, want %s: %+v", job.Report.Verdict, want, job.Report)
		}
	}
	if c := arb.Claims()[0].Capabilities; len(c.Languages) == 0 || c.MemoryBytes == 0 || c.Kernel == "" || c.MemoryMeter == "" {
		t.Errorf("capabilities %+v", c)
	}

	second := start(t, nil, args...)
	if code := second.exit(t, 20*time.Second); code != exitConflict || !strings.Contains(second.text(), "already runs with state directory") {
		t.Errorf("second process: exit code %d", code)
	}

	spinning := arb.Submit(digest, source(`for (volatile int i = 0;; i++) {}`))
	arb.Await(t, time.Minute, "it runs", func() bool { return strings.Contains(strings.Join(arb.Phases(spinning), " "), "running") })
	if err := p.cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.exit(t, 10*time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if job := arb.Job(spinning); job.State != "pending" || job.Attempts[0].Outcome != "released" {
		t.Errorf("job %+v", job)
	}
	for line := range strings.SplitSeq(strings.TrimSpace(p.text()), "\n") {
		if !json.Valid([]byte(line)) {
			t.Errorf("a log line is not JSON: %s", line)
		}
	}
	if strings.Contains(p.text(), arbitertest.Token) || strings.Contains(p.text(), arbitertest.Invitation) {
		t.Error("the log holds a secret")
	}

	arb.Cancel(spinning)
	start(t, nil, "run", "--state-dir", state, "--slots", "1") // the rest is remembered
	again := arb.Submit(digest, source(`puts("42");`))
	if job := arb.AwaitState(t, 5*time.Minute, again, "done"); job.Report.Verdict != "AC" {
		t.Errorf("after a restart: %+v", job.Report)
	}
}

func TestRefusedTokenExitsSix(t *testing.T) {
	needBox(t)
	arb := arbitertest.New()
	srv := httptest.NewServer(arb)
	t.Cleanup(srv.Close)
	p := start(t, []string{"GAVEL_WORKER_TOKEN=gvl_w_old"}, "run", "--url", srv.URL, "--state-dir", filepath.Join(t.TempDir(), "s"))
	if code := p.exit(t, time.Minute); code != exitNotAllowed || !strings.Contains(p.text(), "hint: ") {
		t.Errorf("exit code %d", code)
	}
}

func TestATokenFileThatIsAPipeIsRefusedAndNotWaitedFor(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(20*time.Second, func() { // lets a reader that waits go
		if f, err := os.OpenFile(fifo, os.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
			f.Close()
		}
	})
	defer late.Stop()
	_, err := readToken(fifo)
	if f, ok := errors.AsType[*failure](err); !ok || f.code != exitUsage || !strings.Contains(f.message, "not a regular file") {
		t.Errorf("%v", err)
	}
}

func TestSignalDuringTheStartIsAnOrderlyStop(t *testing.T) {
	signals := make(chan os.Signal, 4)
	w := world{signals: signals}
	ctx, stop := untilSignal(context.Background(), w)
	signals <- unix.SIGHUP
	signals <- unix.SIGTERM
	<-ctx.Done()
	rest := stop()
	signals <- unix.SIGINT
	if a, b := <-rest, <-rest; a != unix.SIGTERM || b != unix.SIGINT {
		t.Errorf("then came %v, %v", a, b)
	}
	close(signals)
}
