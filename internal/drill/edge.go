package drill

import (
	"cmp"
	"context"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/internal/edge"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/worker"
)

// Fleets of a run.
const (
	// FleetArbiter is a fleet whose workers all get their work from an arbiter.
	FleetArbiter = "arbiter"
	// FleetMixed has every other worker take its work from the database itself,
	// beginning with the one that is harmed.
	FleetMixed = "mixed"
)

// callsOf is a worker's way to its work, by its settings; done ends it.
func callsOf(ctx context.Context, s workerSettings, log *slog.Logger) (calls worker.Arbiter, done func(), err error) {
	if s.DatabaseURL == "" {
		c, err := client.New(s.URL, s.Token, client.Options{UserAgent: "gavel-drill"})
		return c, func() {}, err
	}
	db, err := store.Open(ctx, s.DatabaseURL, store.Options{MaxConns: 4, AppName: "gavel-edge:" + s.Name, Role: store.EdgeRole})
	if err != nil {
		return nil, nil, err
	}
	packages, err := edge.OpenDirectory(s.PackagesDir)
	if err != nil {
		db.Close()
		return nil, nil, err
	}
	c, err := edge.New(edge.Config{DB: db, Name: s.Name, Pool: s.Pool, Rank: s.Rank, Poll: s.Poll, Sweep: cmp.Or(s.Sweep, time.Second), Packages: packages, Logger: log})
	if err != nil {
		db.Close()
		return nil, nil, err
	}
	keeping, stop := context.WithCancel(ctx)
	kept := make(chan struct{})
	go func() { defer close(kept); c.Keep(keeping) }()
	return c, func() {
		stop()
		<-kept
		db.Close()
		_ = packages.Close() // read only
	}, nil
}

// edgeWorker starts a worker that acts, straight on the database.
func (s *stand) edgeWorker(name string, slots int, options ...workerOption) *process {
	s.mu.Lock()
	s.slots[name], s.onDatabase[name] = slots, true
	s.mu.Unlock()
	settings := workerSettings{
		Name: name, DatabaseURL: s.url, PackagesDir: s.path("arbiter", "blobs", "packages"), Pool: "default", Rank: 100,
		StateDir: s.state(name), Gates: s.path("gates"), Transcripts: s.transcripts, Slots: slots, Languages: []string{language},
	}
	for _, o := range options {
		o(&settings)
	}
	return s.role("worker-"+name, "worker", settings, nil)
}

// in puts an edge worker into a pool.
func in(pool string, rank int) workerOption {
	return func(w *workerSettings) { w.Pool, w.Rank = pool, rank }
}

// through has an edge worker use a line to the database, and a login; "" is ours.
func (s *stand) through(line *relay, login string) workerOption {
	return func(w *workerSettings) {
		u := s.parsedURL()
		u.Host, u.RawQuery = strings.TrimPrefix(line.url(), "http://"), "sslmode=disable"
		if login != "" {
			u.User = url.User(login)
		}
		w.DatabaseURL = u.String()
	}
}

func (s *stand) parsedURL() *url.URL {
	u, err := url.Parse(s.url)
	s.must(err, "database URL")
	return u
}

// socket is where the database listens.
func (s *stand) socket() string {
	return filepath.Join(s.parsedURL().Query().Get("host"), ".s.PGSQL.5432")
}

// over has a worker and what it gets its work from talk over a line that can
// be harmed: the arbiter's, or in a mixed fleet the database's.
func (s *stand) over(a *arbiterProcess, name string, slots int) (*relay, *process) {
	if s.Fleet != FleetMixed {
		line := s.relay(a.listen)
		return line, s.worker(name, line.url(), slots)
	}
	line := s.relay(s.socket())
	return line, s.edgeWorker(name, slots, s.through(line, ""))
}

// mixedIn says whether a worker of a mixed fleet goes straight to the database:
// the first that is started, and every other one after it. One that starts
// again keeps its way.
func (s *stand) mixedIn(name string) bool {
	if s.Fleet != FleetMixed {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	way, known := s.onDatabase[name]
	if !known {
		way = s.mixed%2 == 0
		s.mixed++
		s.onDatabase[name] = way
	}
	return way
}

// judges says whether a worker runs a submission. Who is straight on the
// database shows no progress, but confirms a lease when it begins.
func (s *stand) judges(id int64, worker string) bool {
	s.mu.Lock()
	edge := s.onDatabase[worker]
	s.mu.Unlock()
	return edge && s.number("select count(*) from jobs where submission_id = $1 and state = 'leased' and confirmed", id) == 1
}
