package pgserver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/gavel-oj/gavel/internal/pgserver/pgbin"
	"github.com/gavel-oj/gavel/internal/testkit"
)

// helperDir makes the test binary an owner process that a test can kill.
const (
	helperDir     = "GAVEL_PGSERVER_HELPER_DIR"
	helperNoDeath = "GAVEL_PGSERVER_HELPER_NO_DEATH_SIGNAL"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperDir); dir != "" {
		os.Exit(helper(dir))
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if template != "" {
			_ = os.RemoveAll(template) // a temporary directory
		}
		os.Exit(code)
	}))
}

var (
	templateOnce sync.Once
	template     string
)

// madeDir is a data directory with a cluster in it, for the tests that are not
// about the first start: a copy is quicker than another initdb.
func madeDir(t *testing.T) string {
	t.Helper()
	templateOnce.Do(func() {
		dir, err := os.MkdirTemp("", "gavel-pgserver-template-")
		if err != nil {
			t.Fatal(err)
		}
		template = dir
		if err := os.Chmod(dir, 0o711); err != nil {
			t.Fatal(err)
		}
		stop(t, start(t, Config{DataDir: dir, FsyncOff: true}))
	})
	dir := tempDir(t)
	if out, err := exec.Command("cp", "-a", filepath.Join(template, clusterName), dir).CombinedOutput(); err != nil {
		t.Fatalf("copy the cluster: %v: %s", err, out)
	}
	return dir
}

// helper owns a server until its standard input ends.
func helper(dir string) int {
	ctx := context.Background()
	s, err := Start(ctx, Config{DataDir: dir, noDeathSignal: os.Getenv(helperNoDeath) != ""})
	if err != nil {
		fmt.Println("ERROR", err)
		return 1
	}
	fmt.Println("READY", s.Pid(), s.URL())
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := s.Stop(ctx); err != nil {
		fmt.Println("ERROR", err)
		return 1
	}
	return 0
}

// owner is a helper process.
type owner struct {
	cmd *exec.Cmd
	pid int // of the postmaster
	url string
}

func startOwner(t *testing.T, dir string, env ...string) *owner {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), helperDir+"="+dir), env...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	o := &owner{cmd: cmd}
	t.Cleanup(func() { stdin.Close(); o.kill(t) })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("owner process said nothing: %v", err)
	}
	if _, err := fmt.Sscanf(line, "READY %d %s", &o.pid, &o.url); err != nil {
		t.Fatalf("owner process said %q", line)
	}
	return o
}

func (o *owner) kill(t *testing.T) {
	t.Helper()
	_ = o.cmd.Process.Kill()
	_ = o.cmd.Wait() // "signal: killed"
}

// needPG ends the test when there are no server programs.
func needPG(t *testing.T) pgbin.Install {
	t.Helper()
	t.Parallel() // these tests mostly wait for processes
	in, err := pgbin.Find(t.Context(), pgbin.Options{})
	if err != nil {
		testkit.Missing(t, testkit.PG, "%v", err)
	}
	return in[0]
}

// tempDir is a directory that the server's user can reach: t.TempDir lies
// below a directory that only we may enter.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gavel-pgserver-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	return dir
}

// start starts a server that ends with the test.
func start(t *testing.T, cfg Config) *Server {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	if cfg.FsyncOff {
		// A killed server that is never started again would leave its shared
		// memory in /dev/shm; like this it lies in the data directory.
		cfg.Settings = map[string]string{"dynamic_shared_memory_type": "mmap"}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := Start(ctx, cfg)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s
}

func stop(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
	if left := serverProcesses(s.layout.cluster); len(left) > 0 {
		t.Errorf("processes left after stop: %v", left)
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatalf("connect to %s: %v", url, err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func mustExec(t *testing.T, c *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := c.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func queryInt(t *testing.T, url, sql string) int {
	t.Helper()
	c := connect(t, url)
	defer c.Close(context.Background())
	var n int
	if err := c.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// eventually polls a condition of another process, which no channel reports.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited too long: %s", what)
		}
	}
}

func partials(t *testing.T, dir string) []string {
	t.Helper()
	m, err := filepath.Glob(filepath.Join(dir, partialPrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func wantMessage(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not mention %q", err, p)
		}
	}
}
