package pgserver

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/clock"
	"github.com/gavel-oj/gavel/internal/pgserver/pgbin"
)

const (
	ownerRole      = "gavel_owner"
	databaseName   = "gavel"
	clusterNameArg = "cluster_name=gavel" // also the mark of a postmaster of ours

	fastStopWait  = 30 * time.Second
	firstPause    = 100 * time.Millisecond
	longestPause  = 5 * time.Second
	calmUptime    = time.Minute     // after this long a crash counts as the first one again
	giveUpAfter   = 5 * time.Minute // of failing to start without a break
	slowStartNote = 5 * time.Second // say that a start (a recovery) takes long
)

// Config says which private PostgreSQL to run.
type Config struct {
	// DataDir is made when it is missing. It must be reachable for the
	// server's user, which is not root.
	DataDir string
	// Logger receives what we and the server say; nil discards it.
	Logger *slog.Logger
	// Clock is clock.System{} when nil.
	Clock clock.Clock
	// User is the user that a root gavel runs the server as; "" means postgres,
	// or nobody where that does not exist. An existing cluster keeps its owner.
	User string
	// BinDirs are the directories to look for the server programs in; nil
	// means PATH and the distributions' folders.
	BinDirs []string
	// Settings are further server settings, such as max_connections. They
	// cannot change the ones that this package depends on.
	Settings map[string]string
	// FsyncOff trades durability for speed. For tests only.
	FsyncOff bool

	noDeathSignal bool     // tests: the postmaster outlives its owner
	shortParents  []string // tests: where short socket directories go
}

// Server is a running private PostgreSQL. Its methods may be called from any
// goroutine.
type Server struct {
	cfg     Config
	log     *slog.Logger
	layout  layout
	account account
	install pgbin.Install
	sockDir string
	lock    *os.File

	stop  context.CancelFunc // ends the supervision
	hurry chan struct{}      // closed when Stop's context is over
	once  sync.Once
	done  chan struct{}

	mu  sync.Mutex
	pid int
	err error
}

// Start makes the cluster if there is none, starts the server and returns when
// it accepts connections. The context bounds the start only; afterwards the
// server runs, and is started again whenever it dies, until Stop.
//
// Errors that a person can cure are *apperr.Error: no server programs, a
// version that does not fit, a directory that cannot be used or is in use.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.System{}
	}
	s := &Server{cfg: cfg, log: cfg.Logger, hurry: make(chan struct{}), done: make(chan struct{})}
	var err error
	if s.layout, err = prepareDataDir(cfg.DataDir); err != nil {
		return nil, err
	}
	if s.lock, err = takeLock(s.layout); err != nil {
		return nil, err
	}
	pm, err := s.boot(ctx)
	if err != nil {
		s.release()
		return nil, err
	}
	runCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	go s.supervise(runCtx, pm)
	return s, nil
}

// boot does what only the first start of the process needs.
func (s *Server) boot(ctx context.Context) (*postmaster, error) {
	major, err := clusterMajor(s.layout.cluster)
	if err != nil {
		return nil, err
	}
	installs, err := pgbin.Find(ctx, pgbin.Options{Dirs: s.cfg.BinDirs})
	if err != nil {
		return nil, err
	}
	if s.install, err = matchInstall(installs, s.layout.cluster, major); err != nil {
		return nil, err
	}
	if s.account, err = chooseAccount(s.cfg.User, s.layout.cluster); err != nil {
		return nil, err
	}
	if err := s.account.checkReach(ctx, s.install, s.layout.dataDir); err != nil {
		return nil, err
	}
	s.removePartials(ctx)
	if major == 0 {
		s.log.InfoContext(ctx, "creating the database", "dir", s.layout.cluster, "version", s.install.Version, "user", s.account.name)
		if err := s.create(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.stopOrphans(ctx); err != nil {
		return nil, err
	}
	parents := s.cfg.shortParents
	if parents == nil {
		parents = shortParents(s.account)
	}
	if s.sockDir, err = socketDir(s.layout, s.account, parents); err != nil {
		return nil, err
	}
	return s.startOnce(ctx)
}

// startOnce starts a postmaster and waits until it accepts connections.
// Recovery after a crash takes as long as it takes; only the context ends it.
func (s *Server) startOnce(ctx context.Context) (*postmaster, error) {
	if err := s.dropStaleLocks(ctx); err != nil {
		return nil, err
	}
	log, w, err := newLogPipe(context.WithoutCancel(ctx), s.log)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), s.install.Path("postgres"), s.args()...) // shutdown stops it, in order
	cmd.Dir = "/"
	cmd.Env = childEnv()
	cmd.Stderr = w
	onOurDeath := syscall.SIGINT
	if s.cfg.noDeathSignal {
		onOurDeath = 0
	}
	cmd.SysProcAttr = s.account.sysProcAttr(onOurDeath)
	pm, err := launch(cmd, log)
	w.Close() // the server has its own copy
	if err != nil {
		return nil, fmt.Errorf("start postgres as user %s: %w", s.account.name, err)
	}
	s.setPid(pm.pid)
	tick := s.cfg.Clock.NewTicker(pollEvery)
	defer tick.Stop()
	slow := s.cfg.Clock.NewTicker(slowStartNote)
	defer slow.Stop()
	for !isReady(s.layout.cluster, pm.pid) {
		select {
		case <-tick.C:
		case <-slow.C:
			s.log.InfoContext(ctx, "postgres is still starting", "pid", pm.pid, "last", log.lastLines())
		case <-pm.exited:
			s.setPid(0)
			<-log.done
			return nil, startError(s.layout.cluster, pm)
		case <-ctx.Done():
			s.shutdown(ctx, pm)
			return nil, fmt.Errorf("start postgres in %s: %w", s.layout.cluster, context.Cause(ctx))
		}
	}
	s.log.InfoContext(ctx, "postgres is ready", "pid", pm.pid, "version", s.install.Version, "socket_dir", s.sockDir)
	return pm, nil
}

func startError(cluster string, pm *postmaster) error {
	last := pm.log.lastLines()
	if strings.Contains(last, "No space left on device") {
		return apperr.New(apperr.Unavailable, "free some space on that disk",
			"no space left for the database in %s: %s", cluster, last)
	}
	return apperr.Wrap(pm.err, apperr.Unavailable, "the last lines are PostgreSQL's own; a damaged cluster is restored from a backup",
		"the database in %s did not start: %s", cluster, last)
}

// args are the server's settings. They are given here rather than written to
// postgresql.conf so that each start has them, whatever was edited there.
func (s *Server) args() []string {
	durable := "on"
	if s.cfg.FsyncOff {
		durable = "off"
	}
	var settings []string
	for _, k := range slices.Sorted(maps.Keys(s.cfg.Settings)) {
		settings = append(settings, k+"="+s.cfg.Settings[k])
	}
	// The last one of a name wins, so ours come after the caller's.
	settings = append(settings,
		"listen_addresses=", "port="+port,
		`unix_socket_directories="`+strings.ReplaceAll(s.sockDir, `"`, `""`)+`"`,
		"unix_socket_permissions=0700",
		"fsync="+durable, "synchronous_commit="+durable, "full_page_writes="+durable,
		"ssl=off", "timezone=UTC", "log_timezone=UTC",
		"logging_collector=off", "log_destination=stderr", "log_line_prefix=",
		"log_min_error_statement=panic", // statements may hold tokens
		clusterNameArg,
	)
	args := []string{"-D", s.layout.cluster}
	for _, set := range settings {
		args = append(args, "-c", set)
	}
	return args
}

// supervise keeps a postmaster running until Stop.
func (s *Server) supervise(ctx context.Context, pm *postmaster) {
	defer close(s.done)
	defer s.release()
	pause := firstPause
	for {
		readyAt := s.cfg.Clock.Now()
		select {
		case <-ctx.Done():
			s.shutdown(ctx, pm)
			return
		case <-pm.exited:
		}
		s.setPid(0)
		s.log.ErrorContext(ctx, "postgres died, starting it again", "pid", pm.pid, "err", pm.err)
		if s.cfg.Clock.Now().Sub(readyAt) > calmUptime {
			pause = firstPause
		}
		var err error
		if pm, err = s.revive(ctx, &pause); err != nil {
			if ctx.Err() == nil {
				s.log.ErrorContext(ctx, "giving up on postgres", "err", err)
				s.mu.Lock()
				s.err = err
				s.mu.Unlock()
			}
			return
		}
	}
}

// revive starts the server again, with a growing pause between attempts.
func (s *Server) revive(ctx context.Context, pause *time.Duration) (*postmaster, error) {
	began := s.cfg.Clock.Now()
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.cfg.Clock.After(*pause):
		}
		*pause = min(*pause*2, longestPause)
		// Backends of the dead one still hold its shared memory for a moment (P3).
		if !waitGone(ctx, s.cfg.Clock, s.layout.cluster, immediateWait) {
			s.killAll(ctx, s.layout.cluster)
		}
		pm, err := s.tryAgain(ctx)
		if err == nil {
			return pm, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		s.log.ErrorContext(ctx, "postgres does not start", "err", err, "next_try_in", *pause)
		if s.cfg.Clock.Now().Sub(began) > giveUpAfter {
			return nil, err
		}
	}
}

// tryAgain is one attempt of revive. The socket's directory may have been
// swept away with the server's death, so it is made again.
func (s *Server) tryAgain(ctx context.Context) (*postmaster, error) {
	if err := privateDir(s.sockDir, s.account); err != nil {
		return nil, err
	}
	return s.startOnce(ctx)
}

// shutdown stops pm: fast, then immediate, then by force. Committed data
// survives each of them.
func (s *Server) shutdown(ctx context.Context, pm *postmaster) {
	pm.signal(syscall.SIGINT)
	select {
	case <-pm.exited:
	case <-s.hurry:
	case <-s.cfg.Clock.After(fastStopWait):
	}
	if pm.alive() {
		s.log.WarnContext(ctx, "postgres does not stop, stopping it at once", "pid", pm.pid)
		pm.signal(syscall.SIGQUIT)
		select {
		case <-pm.exited:
		case <-s.cfg.Clock.After(immediateWait):
			pm.signal(syscall.SIGKILL)
		}
	}
	// Backends of a killed postmaster leave by themselves.
	if ctx := context.WithoutCancel(ctx); !waitGone(ctx, s.cfg.Clock, s.layout.cluster, immediateWait) {
		s.killAll(ctx, s.layout.cluster)
	}
	<-pm.exited
	<-pm.log.done
	s.setPid(0)
	s.log.InfoContext(ctx, "postgres is stopped", "pid", pm.pid)
}

// release gives the directory free for the next owner.
func (s *Server) release() {
	if s.sockDir != "" && filepath.Dir(s.sockDir) != s.layout.dataDir {
		_ = os.Remove(s.sockDir) // a leftover is used again; it may hold a killed server's socket
	}
	_ = s.lock.Close() // drops the lock
}

// Stop shuts the server down and returns when it and all its processes are
// gone. It tries a fast shutdown (clients are disconnected, everything is
// written); when ctx ends first, an immediate one, from which the next start
// recovers. Calling it again is fine.
func (s *Server) Stop(ctx context.Context) error {
	s.stop()
	select {
	case <-s.done:
	case <-ctx.Done():
		s.once.Do(func() { close(s.hurry) })
		<-s.done // bounded by immediateWait
	}
	return s.Err()
}

// URL is the connection string of the database gavel, as its owner. It stays
// the same when the server is started again.
func (s *Server) URL() string { return s.DatabaseURL(databaseName) }

// DatabaseURL is the connection string of another database of this server.
func (s *Server) DatabaseURL(name string) string {
	q := url.Values{"host": {s.sockDir}, "port": {port}, "sslmode": {"disable"}}
	u := url.URL{
		Scheme: "postgres", User: url.User(ownerRole), Path: "/" + name,
		// psql reads a plus sign as itself, not as a space.
		RawQuery: strings.ReplaceAll(q.Encode(), "+", "%20"),
	}
	return u.String()
}

// Pid is the postmaster's process, 0 while there is none.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pid
}

func (s *Server) setPid(pid int) {
	s.mu.Lock()
	s.pid = pid
	s.mu.Unlock()
}

// Version is the server's version, such as "15.18".
func (s *Server) Version() string { return cmp.Or(s.install.Version, "unknown") }

// Done is closed when the server has stopped for good: after Stop, or when it
// could not be started again for several minutes, which Err then explains.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err says why the server has stopped by itself; nil before that and after Stop.
func (s *Server) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}
