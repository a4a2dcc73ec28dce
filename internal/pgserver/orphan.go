package pgserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gavel-oj/gavel/internal/apperr"
)

const (
	orphanFastWait = 10 * time.Second // for a fast shutdown, with its checkpoint
	immediateWait  = 7 * time.Second  // PostgreSQL itself kills its children after 5 s
)

// stopOrphans ends what a dead owner left behind (P3). We hold the lock, so no
// living gavel serves this cluster.
func (s *Server) stopOrphans(ctx context.Context) error {
	cluster := s.layout.cluster
	pid := recordedPid(filepath.Join(cluster, "postmaster.pid"))
	pids := serverProcesses(cluster)
	if len(pids) > 0 {
		s.log.WarnContext(ctx, "stopping a postgres that was left behind", "pids", pids, "dir", cluster)
		for _, p := range pids {
			if p == pid && !isOurPostmaster(p) {
				return apperr.New(apperr.Conflict,
					fmt.Sprintf("stop it first: %s stop -D %s", s.install.Path("pg_ctl"), cluster),
					"the PostgreSQL with pid %d serves %s, and gavel did not start it", p, cluster)
			}
			if isOurPostmaster(p) {
				_ = syscall.Kill(p, syscall.SIGINT) // it may just have gone
			}
		}
		// Backends without a postmaster leave by themselves.
		if !waitGone(ctx, s.cfg.Clock, cluster, orphanFastWait) {
			s.killAll(ctx, cluster)
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("wait for the postgres that was left behind in %s: %w", cluster, context.Cause(ctx))
	}
	if left := serverProcesses(cluster); len(left) > 0 {
		return apperr.New(apperr.Conflict, "end these processes; if they do not react, look at the disk: they hang in the kernel",
			"PostgreSQL processes %v that a dead gavel left behind in %s cannot be stopped", left, cluster)
	}
	return nil
}

// dropStaleLocks removes PostgreSQL's own lock files when the number in them
// belongs to some other living process, or to a dead one that nobody has
// reaped. PostgreSQL ignores a file whose process is gone, but cannot tell
// what a process that exists is doing, and would refuse to start until a
// person removes the file; common in containers, where pids are small and
// repeat. We can tell: no server process has this directory, and we hold the
// lock.
func (s *Server) dropStaleLocks(ctx context.Context) error {
	if len(serverProcesses(s.layout.cluster)) > 0 {
		return nil
	}
	for _, path := range []string{
		filepath.Join(s.layout.cluster, "postmaster.pid"),
		filepath.Join(s.sockDir, socketName+".lock"),
	} {
		pid := recordedPid(path)
		if pid <= 0 || syscall.Kill(pid, 0) != nil {
			continue
		}
		s.log.InfoContext(ctx, "removing a stale lock file", "path", path, "pid", pid)
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove a stale lock file: %w", err)
		}
	}
	return nil
}

// killAll stops every server process of dir the hard way: first so that it
// can still tell its children, then for good. PostgreSQL recovers from this.
func (s *Server) killAll(ctx context.Context, dir string) {
	for _, sig := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGKILL} {
		pids := serverProcesses(dir)
		if len(pids) == 0 {
			return
		}
		for _, p := range pids {
			_ = syscall.Kill(p, sig) // it may just have gone
		}
		// Not cut short by ctx: a start that gives up must not leave half-killed processes.
		waitGone(context.WithoutCancel(ctx), s.cfg.Clock, dir, immediateWait)
	}
}

// fileLine returns a line of a file, counted from 1, "" when there is none.
func fileLine(path string, n int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) < n {
		return ""
	}
	return strings.TrimSpace(lines[n-1])
}

// recordedPid is the pid in a lock file of PostgreSQL, or 0. A server in
// single-user mode writes it negative; it is a server all the same.
func recordedPid(path string) int {
	pid := atoiOr(fileLine(path, 1), 0)
	return max(pid, -pid)
}

// isReady reports whether that postmaster accepts connections; it says so in
// line 8 of its pid file.
func isReady(cluster string, pid int) bool {
	path := filepath.Join(cluster, "postmaster.pid")
	return fileLine(path, 1) == strconv.Itoa(pid) && fileLine(path, 8) == "ready"
}
