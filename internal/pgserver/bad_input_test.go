package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/pgserver/pgbin"
)

func byHand(in pgbin.Install, s *Server, stderr *os.File) *exec.Cmd {
	cmd := exec.Command(in.Path("postgres"), "-D", s.layout.cluster, "-k", s.sockDir, "-c", "listen_addresses=")
	cmd.Dir, cmd.Env, cmd.Stderr = "/", childEnv(), stderr
	cmd.SysProcAttr = s.account.sysProcAttr(syscall.SIGQUIT)
	return cmd
}

// sleeper runs an innocent program as the server's user and returns its pid.
func sleeper(t *testing.T, a account) int {
	t.Helper()
	cmd := exec.Command("/bin/sleep", "600")
	cmd.Dir = "/"
	cmd.SysProcAttr = a.sysProcAttr(0)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

// wantCure checks what every error for people must have.
func wantCure(t *testing.T, err error, code apperr.Code, parts ...string) {
	t.Helper()
	wantMessage(t, err, parts...)
	e, ok := errors.AsType[*apperr.Error](err)
	if !ok {
		t.Fatalf("not an error for people: %v", err)
	}
	if e.Code != code {
		t.Errorf("code %s, want %s", e.Code, code)
	}
	if e.Hint == "" {
		t.Error("no hint")
	}
	t.Logf("message: %v\nhint: %s", err, e.Hint)
}

func TestVersionMismatchNamesBothVersionsAndLeavesTheClusterAlone(t *testing.T) {
	in := needPG(t)
	dir := tempDir(t)
	cluster := filepath.Join(dir, clusterName)
	if err := os.MkdirAll(cluster, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cluster, "PG_VERSION"), []byte("11\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), Config{DataDir: dir})
	wantCure(t, err, apperr.Conflict, "PostgreSQL 11", in.Version, cluster)
	if _, err := os.Stat(filepath.Join(cluster, "PG_VERSION")); err != nil {
		t.Error("the cluster was touched")
	}
}

func TestClusterThatIsNoneIsNeverInitialisedOver(t *testing.T) {
	needPG(t)
	dir := tempDir(t)
	precious := filepath.Join(dir, clusterName, "base", "16384")
	if err := os.MkdirAll(precious, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), Config{DataDir: dir})
	wantCure(t, err, apperr.Conflict, "not a usable PostgreSQL cluster", dir)
	if _, err := os.Stat(precious); err != nil {
		t.Error("it was touched")
	}
}

func TestDirectoryThatIsItselfAClusterIsRefused(t *testing.T) {
	dir := tempDir(t)
	if err := os.WriteFile(filepath.Join(dir, "PG_VERSION"), []byte("15\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), Config{DataDir: dir})
	wantCure(t, err, apperr.Conflict, dir, "itself a PostgreSQL cluster")
}

func TestFileInTheWayIsNamed(t *testing.T) {
	file := filepath.Join(tempDir(t), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below", "it")} {
		_, err := Start(t.Context(), Config{DataDir: dir})
		wantCure(t, err, apperr.Invalid, file+" is not a directory", dir)
	}
}

func TestMissingProgramsNameThePackage(t *testing.T) {
	_, err := Start(t.Context(), Config{DataDir: tempDir(t), BinDirs: []string{t.TempDir()}})
	wantCure(t, err, apperr.Unavailable, "no PostgreSQL server programs")
}

func TestTornInitdbIsDoneAgain(t *testing.T) {
	needPG(t)
	dir := tempDir(t)
	// Killed in the middle: the owner and initdb with it, like a power cut.
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperDir+"="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "initdb at work", func() bool {
		m, _ := filepath.Glob(filepath.Join(dir, partialPrefix+"*", "global", "*"))
		return len(m) > 0
	})
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if _, err := os.Stat(filepath.Join(dir, clusterName)); err == nil {
		t.Fatal("the cluster was complete already; the test tests nothing")
	}
	if len(partials(t, dir)) == 0 {
		t.Fatal("no partial cluster; the test tests nothing")
	}
	s := start(t, Config{DataDir: dir})
	if n := queryInt(t, s.URL(), "select 1"); n != 1 {
		t.Errorf("got %d", n)
	}
	if p := partials(t, dir); len(p) > 0 {
		t.Errorf("left behind: %v", p)
	}
}

func TestCancelledFirstStartLeavesNothing(t *testing.T) {
	needPG(t)
	dir := tempDir(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		defer cancel(errors.New("changed my mind"))
		eventually(t, "initdb at work", func() bool { return len(partials(t, dir)) > 0 })
	}()
	_, err := Start(ctx, Config{DataDir: dir})
	wantMessage(t, err, "changed my mind")
	if _, err := os.Stat(filepath.Join(dir, clusterName)); err == nil {
		t.Error("there is a cluster")
	}
	s := start(t, Config{DataDir: dir, FsyncOff: true})
	if n := queryInt(t, s.URL(), "select 1"); n != 1 {
		t.Errorf("got %d", n)
	}
}

// initdb has children; all of them must go, at once.
func TestCancelledInitdbTakesItsChildrenAlong(t *testing.T) {
	in := needPG(t)
	bin, dir := tempDir(t), tempDir(t)
	if err := os.Symlink(in.Path("postgres"), filepath.Join(bin, "postgres")); err != nil {
		t.Fatal(err)
	}
	// Find follows links, so the programs are given directly.
	script := "#!/bin/sh\ncd \"$2\" && /bin/sleep 600 & echo $! >" + filepath.Join(dir, "child") + "\nwait\n"
	if err := os.WriteFile(filepath.Join(bin, "initdb"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	acc, err := chooseAccount("", filepath.Join(dir, clusterName))
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{layout: layout{dataDir: dir, cluster: filepath.Join(dir, clusterName)}, account: acc, install: pgbin.Install{Dir: bin}}
	ctx, cancel := context.WithCancel(t.Context())
	child := 0
	go func() {
		defer cancel()
		eventually(t, "the child", func() bool {
			child = atoiOr(fileLine(filepath.Join(dir, "child"), 1), 0)
			return child > 0
		})
	}()
	if err := s.create(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	eventually(t, "the end of the child", func() bool {
		exe, _ := os.Readlink("/proc/" + strconv.Itoa(child) + "/exe")
		return exe == ""
	})
	if p := partials(t, dir); len(p) > 0 {
		t.Errorf("left behind: %v", p)
	}
}

func TestParentClosedToTheServersUserIsNamedWithTheCure(t *testing.T) {
	needPG(t)
	if os.Geteuid() != 0 {
		t.Skip("only root's server changes user")
	}
	closed := filepath.Join(tempDir(t), "closed")
	dir := filepath.Join(closed, "deep", "data")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), Config{DataDir: dir})
	wantCure(t, err, apperr.Forbidden, "cannot pass through "+closed+" ", dir)
	if _, err := os.Stat(filepath.Join(dir, clusterName)); err == nil {
		t.Error("something was made")
	}
}

func TestClusterOfRootIsRefusedForRoot(t *testing.T) {
	needPG(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := madeDir(t)
	s := start(t, Config{DataDir: dir, FsyncOff: true})
	stop(t, s)
	if err := os.Chown(s.layout.cluster, 0, 0); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), Config{DataDir: dir})
	wantCure(t, err, apperr.Conflict, "belongs to root", s.layout.cluster)
}

// An ordinary user's view: the test binary runs itself as nobody.
func TestOrdinaryUser(t *testing.T) {
	needPG(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root to become somebody else")
	}
	nobody := account{name: "nobody", uid: 65534, gid: 65534, drop: true}
	exe := filepath.Join(tempDir(t), "self")
	body, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(exe, body, 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(t *testing.T, dir string) string {
		cmd := exec.Command(exe)
		cmd.Dir = "/"
		cmd.Env = []string{helperDir + "=" + dir}
		cmd.SysProcAttr = nobody.sysProcAttr(syscall.SIGKILL)
		out, _ := cmd.CombinedOutput() // its standard input is empty: it stops at once
		return string(out)
	}
	t.Run("runs the server as itself", func(t *testing.T) {
		dir := tempDir(t)
		if err := nobody.own(dir); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if out := run(t, dir); !strings.HasPrefix(out, "READY") || strings.Contains(out, "ERROR") {
				t.Errorf("said %q", out)
			}
		}
	})
	t.Run("is told when the directory is not writable", func(t *testing.T) {
		dir := tempDir(t)
		for _, d := range []string{dir, filepath.Join(dir, "below")} {
			if out := run(t, d); !strings.Contains(out, "not writable for user 65534") || !strings.Contains(out, d) {
				t.Errorf("said %q", out)
			}
		}
	})
	t.Run("is told when the cluster is another's", func(t *testing.T) {
		dir := madeDir(t)
		s := start(t, Config{DataDir: dir, FsyncOff: true})
		stop(t, s)
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, lockName), 0o666); err != nil {
			t.Fatal(err)
		}
		if out := run(t, dir); !strings.Contains(out, s.layout.cluster) || !strings.Contains(out, strconv.Itoa(s.account.uid)) {
			t.Errorf("said %q", out)
		}
	})
}

func TestSocketDirectoryOfAStrangerIsNotUsed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a stranger's directory")
	}
	parent := tempDir(t)
	a := account{name: "nobody", uid: 65534, gid: 65534, drop: true}
	for name, occupy := range map[string]func(string) error{
		"directory": func(p string) error { return errors.Join(os.Mkdir(p, 0o777), os.Chown(p, 1, 1)) },
		"link":      func(p string) error { return os.Symlink("/", p) },
		"file":      func(p string) error { return os.WriteFile(p, nil, 0o600) },
	} {
		p := filepath.Join(parent, name)
		if err := occupy(p); err != nil {
			t.Fatal(err)
		}
		if err := privateDir(p, a); err == nil {
			t.Errorf("a stranger's %s is used", name)
		}
	}
}

func TestSettingsCannotUndoDurability(t *testing.T) {
	s := &Server{cfg: Config{Settings: map[string]string{"fsync": "off", "max_connections": "7"}}}
	last := map[string]string{}
	for _, a := range s.args() {
		k, v, _ := strings.Cut(a, "=")
		last[k] = v
	}
	if last["fsync"] != "on" || last["max_connections"] != "7" {
		t.Errorf("effective settings %v", fmt.Sprint(last))
	}
}
