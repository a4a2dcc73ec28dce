package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/pgserver/pgbin"
)

// account is the user that the server runs as. PostgreSQL refuses to run as
// root, so root's server drops to another user.
type account struct {
	name     string
	uid, gid int
	drop     bool // we are root and change to this user
}

// fallbackUsers are tried in order when root needs an unprivileged user:
// the distribution's server user, then the user that owns nothing. initdb
// insists on a user that has a name, so a bare number will not do.
var fallbackUsers = []string{"postgres", "nobody"}

// chooseAccount picks the server's user. An existing cluster decides for
// itself: its files belong to somebody, and only that user can serve them.
func chooseAccount(want, cluster string) (account, error) {
	self := os.Geteuid()
	owner := ownerOf(cluster)
	if self != 0 {
		if owner >= 0 && owner != self {
			return account{}, foreignCluster(cluster, owner, self)
		}
		return account{name: strconv.Itoa(self), uid: self, gid: os.Getegid()}, nil
	}
	if owner > 0 {
		a := account{name: strconv.Itoa(owner), uid: owner, gid: owner, drop: true}
		if u, err := user.LookupId(a.name); err == nil {
			a.name = u.Username
			a.gid = atoiOr(u.Gid, a.gid)
		}
		return a, nil
	}
	names := fallbackUsers
	if want != "" {
		names = []string{want}
	}
	for _, name := range names {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		a := account{name: name, uid: atoiOr(u.Uid, 0), gid: atoiOr(u.Gid, 0), drop: true}
		if a.uid == 0 {
			continue
		}
		if owner == 0 {
			return account{}, apperr.New(apperr.Conflict, fmt.Sprintf("chown -R %s %s", name, cluster),
				"the database in %s belongs to root, and PostgreSQL refuses to run as root", cluster)
		}
		return a, nil
	}
	return account{}, apperr.New(apperr.Unavailable,
		"create one (useradd --system postgres), or run gavel as an ordinary user",
		"gavel runs as root, PostgreSQL must not, and there is no unprivileged user for it (looked for %s)",
		strings.Join(names, ", "))
}

// ownerOf returns the user that owns path, -1 when that cannot be said.
func ownerOf(path string) int {
	fi, err := os.Stat(path)
	if err != nil {
		return -1
	}
	return uidOf(fi)
}

// uidOf returns a file's owner, -1 when the system does not say it.
func uidOf(fi os.FileInfo) int {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

func foreignCluster(cluster string, owner, self int) error {
	return apperr.New(apperr.Forbidden,
		fmt.Sprintf("run gavel as that user or as root, or give it another --data-dir, or: chown -R %d %s", self, cluster),
		"the database in %s belongs to user %d, but gavel runs as user %d", cluster, owner, self)
}

func atoiOr(s string, other int) int {
	if n, err := strconv.Atoi(s); err == nil {
		return n
	}
	return other
}

// sysProcAttr makes a child of its own session (so that Ctrl-C at the terminal
// reaches us alone and we stop in order), as the server's user, that is
// signalled when we die.
func (a account) sysProcAttr(onOurDeath syscall.Signal) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true, Pdeathsig: onOurDeath}
	if a.drop {
		attr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return attr
}

// checkReach makes sure that the server's user can enter dir, and when not
// names the first parent that keeps it out. It asks the kernel by really
// entering (a child changes directory after it has changed user), so access
// lists and security modules count as well.
func (a account) checkReach(ctx context.Context, in pgbin.Install, dir string) error {
	if !a.drop {
		return nil
	}
	enter := func(dir string) error {
		cmd := exec.CommandContext(ctx, in.Path("postgres"), "--version")
		cmd.Dir = dir
		cmd.Env = childEnv()
		cmd.SysProcAttr = a.sysProcAttr(syscall.SIGKILL)
		return cmd.Run()
	}
	err := enter(dir)
	if err == nil {
		return nil
	}
	if rootErr := enter("/"); rootErr != nil {
		if errors.Is(rootErr, syscall.EPERM) || errors.Is(rootErr, syscall.EINVAL) {
			return apperr.Wrap(rootErr, apperr.Forbidden, "run gavel as an ordinary user, or let the container change users (CAP_SETUID, CAP_SETGID)",
				"cannot start PostgreSQL as user %s", a.name)
		}
		return apperr.Wrap(rootErr, apperr.Forbidden, "install PostgreSQL where every user may run it: "+pgbin.InstallCommand(""),
			"user %s cannot run %s", a.name, in.Path("postgres"))
	}
	blocked := dir
	for p := dir; p != "/"; p = filepath.Dir(p) {
		if enter(p) != nil {
			blocked = p
		}
	}
	if errors.Is(err, fs.ErrPermission) {
		return apperr.New(apperr.Forbidden,
			fmt.Sprintf("choose a --data-dir outside %s (for example /var/lib/gavel), or let others pass through: chmod o+x %s", blocked, blocked),
			"PostgreSQL runs as user %s because gavel runs as root, and that user cannot pass through %s to reach %s", a.name, blocked, dir)
	}
	return fmt.Errorf("enter %s as user %s: %w", dir, a.name, err)
}

// own gives path to the server's user when we are root.
func (a account) own(path string) error {
	if !a.drop {
		return nil
	}
	return os.Chown(path, a.uid, a.gid)
}

// childEnv is the whole environment of the server: nothing of ours (tokens,
// PG* variables, locale) leaks into it.
func childEnv() []string {
	return []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
}
