package drill

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/drill/transcript"
	"github.com/gavel-oj/gavel/internal/pgserver"
)

// Lease settings of the stands: short, so that expiry is soon, and long enough
// for a busy machine to heartbeat in time. Leadership keeps its defaults,
// because its times are among the figures.
const (
	shortTTL  = 3 * time.Second
	shortBeat = 300 * time.Millisecond
)

// The languages of a stand: workers under test offer the first, bystanders the
// second, so that each waits for its own work only.
const (
	language          = "cpp17"
	bystanderLanguage = "python3"
	handLanguage      = "c" // of calls that a scenario makes by hand beside both
)

const testCount = 10 // of the problem that is judged

// stand is a gavel of its own for one scenario.
type stand struct {
	*T
	pg       *pgserver.Server
	url      string // of the database
	db       *pgxpool.Pool
	arbiters []*arbiterProcess
	api      *client.Client // of the first arbiter
	token    string         // of the administrator

	mu      sync.Mutex
	tokens  map[string]string  // of workers by name
	slots   map[string]int     // of workers by name
	expect  map[int64][]string // submission → verdicts that are right
	watched *bystanders        // nil: nobody watches

	transcripts string // directory; "": nobody writes down what is asked
	operating   *transcript.Log

	onDatabase map[string]bool // workers by name: straight on the database
	mixed      int             // workers of a mixed fleet that have been given a way
}

// arbiterProcess is one running arbiter.
type arbiterProcess struct {
	*process
	listen string
	url    string
	api    *client.Client
	again  func() *process // starts it anew
}

// newStand starts a database.
func newStand(t *T) *stand {
	s := &stand{T: t, tokens: map[string]string{}, slots: map[string]int{}, expect: map[int64][]string{}, onDatabase: map[string]bool{}, transcripts: t.path("transcripts")}
	t.must(os.MkdirAll(t.path("gates"), 0o755), "gates")
	log, err := os.OpenFile(t.path("postgres.log"), os.O_CREATE|os.O_WRONLY, 0o600)
	t.must(err, "log of PostgreSQL")
	t.cleanup(func() { _ = log.Close() })
	if t.Cluster != "" {
		out, err := exec.CommandContext(t.ctx, "cp", "-a", t.Cluster, t.path("pg")).CombinedOutput()
		if err != nil {
			t.Fatalf("copy the prepared cluster: %v: %s", err, out)
		}
	}
	s.pg, err = pgserver.Start(t.ctx, pgserver.Config{
		DataDir: t.path("pg"), Clock: t.Clock, Logger: slog.New(slog.NewTextHandler(log, nil)),
		Settings: map[string]string{"max_connections": "60"},
	})
	if apperr.CodeOf(err) == apperr.Unavailable {
		t.Skipf("no PostgreSQL: %v", err)
	}
	t.must(err, "start PostgreSQL")
	t.cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), 10*time.Second)
		defer cancel()
		_ = s.pg.Stop(ctx) // stops in any case
	})
	s.connect(s.pg.URL())
	return s
}

// PrepareCluster makes the data directory of a new database in dir, for
// Options.Cluster.
func PrepareCluster(ctx context.Context, dir string) error {
	pg, err := pgserver.Start(ctx, pgserver.Config{DataDir: dir})
	if err != nil {
		return err
	}
	return pg.Stop(ctx)
}

// connect opens the drill's own sessions, which look and harm.
func (s *stand) connect(url string) {
	s.url = url
	cfg, err := pgxpool.ParseConfig(url)
	s.must(err, "database URL")
	cfg.MaxConns = 4
	cfg.ConnConfig.RuntimeParams["application_name"] = "drill"
	s.db, err = pgxpool.NewWithConfig(s.ctx, cfg)
	s.must(err, "database pool")
	s.cleanup(s.db.Close)
}

// freeAddress is an address that nobody listens on now. A fixed one, because
// an arbiter that comes back must be where its workers look for it.
func (s *stand) freeAddress() string {
	var lc net.ListenConfig
	l, err := lc.Listen(s.ctx, "tcp", "127.0.0.1:0")
	s.must(err, "find a port")
	defer l.Close()
	return l.Addr().String()
}

// serve starts an arbiter with the given times of leases and further flags and
// waits until it answers; the first one also until it leads.
func (s *stand) serve(ttl, beat time.Duration, flags ...string) *arbiterProcess {
	name := fmt.Sprintf("arbiter-%d", len(s.arbiters)+1)
	a := &arbiterProcess{listen: s.freeAddress()}
	a.again = func() *process {
		args := []string{
			"serve", "--database-url", s.url, "--data-dir", s.path("arbiter"), "--listen", a.listen,
			"--admin-token-file", s.path("admin-token"), "--lease-ttl", ttl.String(), "--heartbeat", beat.String(),
			"--set-aside-after", "0", // unless a scenario is about health: workers here are harmed on purpose, again and again
		}
		cmd := exec.Command(s.Gavel, append(args, flags...)...)
		cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
		return s.start(name, cmd, 0)
	}
	s.lead(a)
	return a
}

// lead starts an arbiter and waits until it answers; the first one also until
// it leads.
func (s *stand) lead(a *arbiterProcess) {
	a.process = a.again()
	a.url = "http://" + a.listen
	first := len(s.arbiters) == 0
	s.arbiters = append(s.arbiters, a)
	if s.token == "" {
		s.until(60*time.Second, "the administrator's token", func() bool {
			if a.gone() {
				s.Fatalf("%s ended while starting, see %s", a.name, a.log)
			}
			raw, err := os.ReadFile(s.path("admin-token"))
			s.token = strings.TrimSpace(string(raw))
			return err == nil && s.token != ""
		})
	}
	var err error
	a.api, err = client.New(a.url, s.token, client.Options{UserAgent: "gavel-drill"})
	s.must(err, "client")
	s.cleanup(a.api.Close)
	s.until(60*time.Second, a.name+" answers", func() bool {
		health, err := a.api.Ready(s.ctx)
		return err == nil && (health.Status == "ok" || !first)
	})
	if first {
		s.api = a.api
		s.publish("p", testCount, 1)
	}
}

// restart starts an arbiter again where it was.
func (s *stand) restart(a *arbiterProcess) {
	a.process = a.again()
	s.until(60*time.Second, a.name+" leads again", func() bool {
		health, err := a.api.Ready(s.ctx)
		return err == nil && health.Status == "ok"
	})
}

// publish imports a problem whose answers echo their input.
func (s *stand) publish(name string, tests, seconds int) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	files := map[string]string{
		"problem.yaml": fmt.Sprintf("problem_format_version: 2025-09\nname: %s\nuuid: 7c0ffee0-0000-4000-8000-00000000000%d\nlimits:\n  time_limit: %d\n  memory: 256\n",
			name, seconds%10, seconds),
	}
	for i := range tests {
		files[fmt.Sprintf("data/secret/%02d.in", i+1)] = fmt.Sprintf("%d\n", i+1)
		files[fmt.Sprintf("data/secret/%02d.ans", i+1)] = fmt.Sprintf("%d\n", i+1)
	}
	for file, content := range files {
		w, err := z.Create(name + "/" + file)
		s.must(err, "zip")
		_, err = w.Write([]byte(content))
		s.must(err, "zip")
	}
	s.must(z.Close(), "zip")
	_, err := s.api.ProblemImport(s.ctx, client.Import{Name: name, Verify: gavelapi.VerifyNone, Reason: "the package is the drill's own"}, &b)
	s.must(err, "import the problem")
}

// enrol makes a worker known and returns its token.
func (s *stand) enrol(name string, slots int) string {
	s.mu.Lock()
	token := s.tokens[name]
	s.slots[name] = slots
	s.mu.Unlock()
	if token != "" {
		return token
	}
	inv, err := s.api.WorkerInvite(s.ctx, gavelapi.NewInvitation{})
	s.must(err, "invite "+name)
	got, err := s.api.Enrol(s.ctx, gavelapi.EnrolRequest{Invitation: inv.Code, Name: name})
	s.must(err, "enrol "+name)
	s.mu.Lock()
	s.tokens[name] = got.Token
	s.mu.Unlock()
	return got.Token
}

// workerOption changes the settings of a worker.
type workerOption func(*workerSettings)

func offering(languages ...string) workerOption {
	return func(w *workerSettings) { w.Languages = languages }
}

// sound is a worker whose probes have the answers that are known.
func sound(w *workerSettings) { w.Sound = true }

// worker starts a worker that acts, against url ("" is the first arbiter's).
// Starting one of the same name again is a restart of its machine.
func (s *stand) worker(name, url string, slots int, options ...workerOption) *process {
	if url == "" && name != bystander && s.mixedIn(name) {
		return s.edgeWorker(name, slots, options...)
	}
	if url == "" {
		url = s.arbiters[0].url
	}
	settings := workerSettings{
		Name: name, URL: url, Token: s.enrol(name, slots), StateDir: s.state(name),
		Gates: s.path("gates"), Transcripts: s.transcripts, Slots: slots, Languages: []string{language},
	}
	for _, o := range options {
		o(&settings)
	}
	var attr *syscall.SysProcAttr
	if settings.DiskBytes > 0 {
		attr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	}
	return s.role("worker-"+name, "worker", settings, attr)
}

func (s *stand) state(name string) string { return s.path("state-" + name) }

// outbox lists the results that workers, named by a pattern, have not delivered.
func (s *stand) outbox(names string) []string {
	found, _ := filepath.Glob(filepath.Join(s.state(names), "outbox", "*.result")) // the pattern is well-formed
	return found
}

// open opens a gate that scripts wait at.
func (s *stand) open(gate string) {
	s.must(os.WriteFile(s.path("gates", gate), nil, 0o644), "open a gate")
}

// submit hands in a script whose verdict must become one of want.
func (s *stand) submit(script string, want ...string) int64 {
	return s.submitTo(s.api, script, want...)
}

func (s *stand) submitTo(api *client.Client, script string, want ...string) int64 {
	sub, err := api.SubmissionCreate(s.ctx, gavelapi.NewSubmission{Problem: "p", Language: language, Source: script}, "")
	s.must(err, "submit")
	s.owe(sub.ID, want)
	return sub.ID
}

// owe notes what a submission must become; nothing means AC.
func (s *stand) owe(id int64, want []string) {
	if len(want) == 0 {
		want = []string{"AC"}
	}
	s.mu.Lock()
	s.expect[id] = want
	s.mu.Unlock()
}

func (s *stand) submission(id int64) gavelapi.Submission {
	sub, err := s.api.SubmissionGet(s.ctx, id, 0)
	s.must(err, "read a submission")
	return *sub
}

// awaitJudging waits until a worker runs a submission.
func (s *stand) awaitJudging(id int64, by string) {
	s.until(4*time.Minute, fmt.Sprintf("submission %d is judged by %s", id, by), func() bool {
		sub, err := s.api.SubmissionGet(s.ctx, id, 0)
		return err == nil && sub.State == gavelapi.StateJudging && (by == "" || sub.Worker == by) &&
			(sub.Progress != nil && sub.Progress.Phase == "running" || s.judges(id, sub.Worker))
	})
}

// awaitFinal waits until a submission is final.
func (s *stand) awaitFinal(id int64, limit time.Duration) gavelapi.Submission {
	var last gavelapi.Submission
	s.until(limit, fmt.Sprintf("submission %d is final", id), func() bool {
		sub, err := s.api.SubmissionGet(s.ctx, id, 0)
		if err != nil {
			return false // something was killed
		}
		last = *sub
		return gavelapi.Final(sub.State)
	})
	return last
}

// wantAttempts checks how the attempts of a submission ended, in order.
func (s *stand) wantAttempts(id int64, outcomes ...string) {
	sub := s.submission(id)
	var got []string
	for _, a := range sub.Detail.Attempts {
		got = append(got, a.Outcome)
	}
	if strings.Join(got, " ") != strings.Join(outcomes, " ") {
		s.Errorf("the attempts of submission %d ended as %v, want %v", id, got, outcomes)
	}
}
