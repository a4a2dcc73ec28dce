package pgserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/pgserver/pgbin"
)

// clusterMajor reads which major version made the cluster; 0 when there is
// none yet. Something of that name that is not a cluster is an error: it is
// not ours to judge what it is worth (P2).
func clusterMajor(cluster string) (int, error) {
	if _, err := os.Lstat(cluster); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	text, err := os.ReadFile(filepath.Join(cluster, "PG_VERSION"))
	if err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			return n, nil
		}
		return 0, damaged(cluster, fmt.Errorf("PG_VERSION is not a number"))
	}
	if errors.Is(err, fs.ErrPermission) {
		return 0, foreignCluster(cluster, ownerOf(cluster), os.Geteuid())
	}
	return 0, damaged(cluster, err)
}

func damaged(cluster string, err error) error {
	return apperr.Wrap(err, apperr.Conflict,
		"restore it from a backup, or move it away to start with an empty database",
		"%s is not a usable PostgreSQL cluster", cluster)
}

// matchInstall finds the programs that can serve a cluster of that major
// version. PostgreSQL's files change with every major version.
func matchInstall(installs []pgbin.Install, cluster string, major int) (pgbin.Install, error) {
	if major == 0 {
		return installs[0], nil
	}
	have := make([]string, 0, len(installs))
	for _, in := range installs {
		if in.Major == major {
			return in, nil
		}
		have = append(have, fmt.Sprintf("%s (%s)", in.Version, in.Dir))
	}
	return pgbin.Install{}, apperr.New(apperr.Conflict,
		fmt.Sprintf("install that version beside the others: %s; or convert the cluster with pg_upgrade", pgbin.InstallCommandFor("", major)),
		"the database in %s was made by PostgreSQL %d, but this machine has PostgreSQL %s, which cannot read it",
		cluster, major, strings.Join(have, ", "))
}

// create makes the cluster (P2): everything happens in a partial directory,
// which gets its real name when it is complete and on disk.
func (s *Server) create(ctx context.Context) error {
	partial := filepath.Join(s.layout.dataDir, partialPrefix+strings.ToLower(rand.Text()[:10]))
	if err := os.Mkdir(partial, 0o700); err != nil {
		return dirError(err, s.layout.dataDir)
	}
	if err := s.account.own(partial); err != nil {
		return fmt.Errorf("give %s to user %s: %w", partial, s.account.name, err)
	}
	err := s.fillCluster(ctx, partial)
	if err == nil {
		err = os.Rename(partial, s.layout.cluster)
	}
	if err == nil && !s.cfg.FsyncOff {
		err = syncDir(s.layout.dataDir)
	}
	if err != nil {
		_ = os.RemoveAll(partial) // the next start tries again
		if strings.Contains(err.Error(), "No space left on device") {
			return apperr.Wrap(err, apperr.Unavailable, "free some space, or choose a --data-dir on another disk",
				"no space left to create the database in %s", s.layout.dataDir)
		}
		return fmt.Errorf("create the database in %s: %w", s.layout.dataDir, err)
	}
	return nil
}

// fillCluster runs initdb and makes the database. The C locale sorts the same
// on every machine and after every upgrade of the C library, so an index never
// goes stale; text is UTF-8. Anybody who reaches the socket is trusted (P4).
func (s *Server) fillCluster(ctx context.Context, dir string) error {
	args := []string{
		"-D", dir, "-U", ownerRole, "--encoding=UTF8", "--locale=C",
		"--auth-local=trust", "--auth-host=reject", "--data-checksums",
	}
	single := []string{"--single", "-D", dir, "-c", "log_min_messages=fatal"}
	if s.cfg.FsyncOff {
		args = append(args, "--no-sync")
		single = append(single, "-F")
	}
	if _, err := runTool(ctx, s.account, "", s.install.Path("initdb"), args...); err != nil {
		return err
	}
	// A server in single-user mode needs no socket. It reports a failed
	// statement in its output only, so the output is looked at.
	out, err := runTool(ctx, s.account, "CREATE DATABASE "+databaseName+"\n", s.install.Path("postgres"), append(single, "template1")...)
	if err != nil {
		return err
	}
	if strings.Contains(out, "ERROR:") {
		return fmt.Errorf("create database %s: %s", databaseName, tail(out, 3))
	}
	return nil
}

// removePartials clears what an interrupted first start left behind. A
// leftover that resists is harmless, because each attempt has its own name.
func (s *Server) removePartials(ctx context.Context) {
	partials, _ := filepath.Glob(globQuote(s.layout.dataDir) + "/" + partialPrefix + "*") // the pattern is well-formed
	for _, dir := range partials {
		s.killAll(ctx, dir)
		if err := os.RemoveAll(dir); err != nil {
			s.log.WarnContext(ctx, "cannot remove an unfinished cluster", "dir", dir, "err", err)
			continue
		}
		s.log.InfoContext(ctx, "removed an unfinished cluster", "dir", dir)
	}
}

// globQuote makes s stand for itself in a pattern.
func globQuote(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
