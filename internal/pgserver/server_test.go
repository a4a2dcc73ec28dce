package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/internal/apperr"
)

func TestFirstStartMakesADurablePrivateCluster(t *testing.T) {
	needPG(t)
	dir := filepath.Join(tempDir(t), "deep", "below")
	s := start(t, Config{DataDir: dir})
	c := connect(t, s.URL())
	for setting, want := range map[string]string{
		"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "data_checksums": "on",
		"listen_addresses": "", "server_encoding": "UTF8", "lc_collate": "C", "TimeZone": "UTC",
	} {
		var got string
		if err := c.QueryRow(t.Context(), "select current_setting($1)", setting).Scan(&got); err != nil {
			t.Errorf("%s: %v", setting, err)
		} else if got != want {
			t.Errorf("%s is %q, want %q", setting, got, want)
		}
	}
	var user, db string
	var super bool
	if err := c.QueryRow(t.Context(), "select current_user, current_database(), rolsuper from pg_roles where rolname = current_user").Scan(&user, &db, &super); err != nil {
		t.Fatal(err)
	}
	if user != "gavel_owner" || db != "gavel" || !super {
		t.Errorf("connected as %s (superuser %v) to %s", user, super, db)
	}
	for _, d := range []string{s.layout.cluster, s.sockDir} {
		fi, err := os.Stat(d)
		if err != nil {
			t.Fatal(err)
		}
		if uid := uidOf(fi); fi.Mode().Perm() != 0o700 || uid != s.account.uid || uid == 0 {
			t.Errorf("%s has mode %v and owner %d", d, fi.Mode(), uid)
		}
	}
	if p := partials(t, dir); len(p) > 0 {
		t.Errorf("left behind: %v", p)
	}
}

func TestCleanRestartKeepsData(t *testing.T) {
	needPG(t)
	dir := madeDir(t)
	s := start(t, Config{DataDir: dir})
	c := connect(t, s.URL())
	mustExec(t, c, "create table kept (n int)")
	mustExec(t, c, "insert into kept values (42)")
	stop(t, s) // with a client still connected
	select {
	case <-s.Done():
	default:
		t.Error("Done is open after Stop")
	}
	if s.Pid() != 0 {
		t.Errorf("pid %d after Stop", s.Pid())
	}
	s = start(t, Config{DataDir: dir})
	if n := queryInt(t, s.URL(), "select n from kept"); n != 42 {
		t.Errorf("read back %d", n)
	}
}

func TestOddDirectoryNamesWork(t *testing.T) {
	needPG(t)
	for _, name := range []string{`a b"d'e%2F\$+é`, "[x]*?", "a,b,c", strings.Repeat("long", 40)} {
		t.Run(name[:5], func(t *testing.T) {
			dir := filepath.Join(tempDir(t), name)
			if err := os.Rename(madeDir(t), dir); err != nil {
				t.Fatal(err)
			}
			short := tempDir(t)
			s := start(t, Config{DataDir: dir, FsyncOff: true, shortParents: []string{short}})
			if n := queryInt(t, s.URL(), "select 1"); n != 1 {
				t.Errorf("got %d", n)
			}
			if unfit := len(name) > 100 || strings.Contains(name, ","); unfit != (filepath.Dir(s.sockDir) == short) {
				t.Errorf("socket is in %s", s.sockDir)
			}
			stop(t, s)
			if left, _ := os.ReadDir(short); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// Every row whose commit was acknowledged is there after the crash.
func TestKilledPostmasterIsStartedAgain(t *testing.T) {
	needPG(t)
	s := start(t, Config{DataDir: madeDir(t)})
	mustExec(t, connect(t, s.URL()), "create table acked (n int)")
	acked := 0
	for round := range 2 {
		c := connect(t, s.URL())
		pid := s.Pid()
		for i := 0; ; i++ {
			if i == 50 {
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := c.Exec(t.Context(), "insert into acked values ($1)", acked); err != nil {
				break
			}
			acked++
		}
		eventually(t, "a new postmaster", func() bool {
			if p := s.Pid(); p == 0 || p == pid {
				return false
			}
			c, err := pgx.Connect(t.Context(), s.URL())
			if err != nil {
				return false
			}
			defer c.Close(context.Background())
			return c.Ping(t.Context()) == nil
		})
		if n := queryInt(t, s.URL(), "select count(distinct n) from acked where n < "+fmt.Sprint(acked)); n != acked {
			t.Errorf("round %d: %d of %d acknowledged rows", round, n, acked)
		}
	}
}

func TestStopWhilePostmasterIsDeadReturns(t *testing.T) {
	needPG(t)
	s := start(t, Config{DataDir: madeDir(t), FsyncOff: true})
	if err := syscall.Kill(s.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	stop(t, s)
}

func TestStopWithEndedContextStillStopsEverything(t *testing.T) {
	needPG(t)
	s := start(t, Config{DataDir: madeDir(t), FsyncOff: true})
	// A stopped process cannot follow a request; only force ends it.
	if err := syscall.Kill(s.Pid(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(ctx) }()
	select {
	case err := <-stopped:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(fastStopWait - time.Second):
		t.Error("waited for a fast shutdown all the same")
		<-stopped
	}
	if left := serverProcesses(s.layout.cluster); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestKilledOwnerDoesNotHinderTheNextStart(t *testing.T) {
	needPG(t)
	tests := []struct {
		name string
		env  []string
	}{
		{name: "the kernel tells the postmaster"},
		{name: "the postmaster is orphaned", env: []string{helperNoDeath + "=1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := madeDir(t)
			o := startOwner(t, dir, tt.env...)
			c := connect(t, o.url)
			mustExec(t, c, "create table kept (n int)")
			mustExec(t, c, "insert into kept values (7)")
			o.kill(t)
			if tt.env != nil && syscall.Kill(o.pid, 0) != nil {
				t.Fatal("the postmaster should have been orphaned; the test tests nothing")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			defer cancel()
			s, err := Start(ctx, Config{DataDir: dir})
			if err != nil {
				t.Fatalf("start after the owner was killed: %v", err)
			}
			defer stop(t, s)
			if s.Pid() == o.pid {
				t.Error("the orphan still runs")
			}
			if n := queryInt(t, s.URL(), "select n from kept"); n != 7 {
				t.Errorf("read back %d", n)
			}
		})
	}
}

func TestParentDeathSignalReachesThePostmaster(t *testing.T) {
	needPG(t)
	o := startOwner(t, madeDir(t))
	o.kill(t)
	eventually(t, "the end of the postmaster", func() bool { return !isServer(o.pid) })
}

func TestEverythingKilledAtOnceIsRecovered(t *testing.T) {
	needPG(t)
	dir := madeDir(t)
	o := startOwner(t, dir)
	mustExec(t, connect(t, o.url), "create table kept as select 5 as n")
	pids := serverProcesses(filepath.Join(dir, clusterName))
	o.kill(t)
	for _, p := range pids {
		_ = syscall.Kill(p, syscall.SIGKILL)
	}
	s := start(t, Config{DataDir: dir})
	if n := queryInt(t, s.URL(), "select n from kept"); n != 5 {
		t.Errorf("read back %d", n)
	}
}

func TestSecondStartIsRefusedWithDirectoryAndPid(t *testing.T) {
	needPG(t)
	dir := madeDir(t)
	o := startOwner(t, dir)
	_, err := Start(t.Context(), Config{DataDir: dir})
	wantMessage(t, err, dir, fmt.Sprintf("pid %d", o.cmd.Process.Pid))
	e, ok := errors.AsType[*apperr.Error](err)
	if !ok || e.Code != apperr.Conflict || e.Hint == "" {
		t.Errorf("error %#v", err)
	}
	if n := queryInt(t, o.url, "select 1"); n != 1 {
		t.Error("the first server was disturbed")
	}
}

func TestStalePidFileOfARecycledPidIsRemoved(t *testing.T) {
	needPG(t)
	dir := madeDir(t)
	s := start(t, Config{DataDir: dir, FsyncOff: true})
	stop(t, s)
	// The worst case: the number now belongs to a living program of the server's own user.
	cmd := sleeper(t, s.account)
	pidFile := filepath.Join(s.layout.cluster, "postmaster.pid")
	if err := os.WriteFile(pidFile, fmt.Appendf(nil, "%d\n%s\n1\n5432\n/x\n\n  1 2\nready   \n", cmd, s.layout.cluster), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.account.own(pidFile); err != nil {
		t.Fatal(err)
	}
	s = start(t, Config{DataDir: dir, FsyncOff: true})
	if n := queryInt(t, s.URL(), "select 1"); n != 1 {
		t.Errorf("got %d", n)
	}
	if syscall.Kill(cmd, 0) != nil {
		t.Error("the stranger was killed")
	}
}

func TestServerStartedByHandIsNamedAndLeftAlone(t *testing.T) {
	in := needPG(t)
	dir := madeDir(t)
	s := start(t, Config{DataDir: dir, FsyncOff: true})
	stop(t, s)
	log, w, err := newLogPipe(t.Context(), s.log)
	if err != nil {
		t.Fatal(err)
	}
	pm, err := launch(byHand(in, s, w), log)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.shutdown(t.Context(), pm) }()
	eventually(t, "the server by hand", func() bool { return isReady(s.layout.cluster, pm.pid) })
	_, err = Start(t.Context(), Config{DataDir: dir, FsyncOff: true})
	wantMessage(t, err, fmt.Sprint(pm.pid), s.layout.cluster, "did not start it")
	if !pm.alive() {
		t.Error("it was stopped")
	}
}
