package arbiter

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/internal/alarm"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/blob"
	"github.com/gavel-oj/gavel/internal/buildinfo"
	"github.com/gavel-oj/gavel/internal/clock"
	"github.com/gavel-oj/gavel/internal/dispatch"
	"github.com/gavel-oj/gavel/internal/health"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/lease"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
	"github.com/gavel-oj/gavel/internal/webhook"
)

// shard is the only one yet: every job, one leader.
const shard int32 = 0

// LeaderSettings are the times of leadership.
type LeaderSettings struct {
	Valid time.Duration // how long the row is valid after a renewal, by the database's clock
	Renew time.Duration // how often the leader renews it
	// Answer is how long after sending its last successful renewal the leader
	// still answers from memory. It is less than Valid, so that a leader that
	// was frozen is silent before another one speaks.
	Answer time.Duration
	Poll   time.Duration // how often a standby looks
}

// DefaultLeaderSettings replace a killed leader in under a second and a frozen
// one in about five.
var DefaultLeaderSettings = LeaderSettings{
	Valid: 5 * time.Second, Renew: time.Second, Answer: 3 * time.Second, Poll: 250 * time.Millisecond,
}

// Config is what an Arbiter needs.
type Config struct {
	DB          *store.DB
	DatabaseURL string // for the leader's own session
	Blobs       blob.Store
	Languages   *language.Registry
	Lease       lease.Settings
	Leader      LeaderSettings
	Dispatch    dispatch.Policy // zero is dispatch.DefaultPolicy
	Health      health.Settings // zero judges nobody's health
	SleepLead   time.Duration   // before planned hours; 0 is DefaultSleepLead
	Holder      string          // names this process in the leadership row: host and pid
	Clock       clock.Clock
	Logger      *slog.Logger
	TempDir     string // for packages on their way in; "" is the system's
	// SourceBytes caps the size of a source; a package's own limit may be lower.
	SourceBytes int64
	Runs        RunSettings // zero fields are those of DefaultRunSettings
	// MaxWaitingPerUser is how many submissions and runs of one user may wait
	// at once; more are refused when they come. 0 is any number.
	MaxWaitingPerUser int
	Alarms            alarm.Settings // zero is alarm.Default
	WebhookPrivate    bool           // webhooks may go to addresses that are not public
}

// Arbiter dispatches and serves. It implements httpapi.Service.
type Arbiter struct {
	cfg   Config
	db    *store.DB
	q     *storedb.Queries
	log   *slog.Logger
	clock clock.Clock

	current  atomic.Pointer[leadership] // nil while standing by
	watch    *watchers
	tokens   *tokenCache
	packages *knownPackages
	// probePackages are the digests of those that are known to be stored.
	probePackages sync.Map
	// stopping is closed when Run's context ends: readers that wait are then
	// answered, so that an orderly stop need not outlast them.
	stopping chan struct{}
	// openAlarms is what the watching loop saw last; nil while standing by.
	openAlarms atomic.Pointer[[]alarm.Alarm]
	// match is dispatch's Match; a test puts a broken one here. Needs the
	// leadership's lock.
	match func(b *dispatch.Board, now time.Time, limit int) ([]dispatch.Grant, time.Time)

	hooks      *webhook.Sender
	count      *counters
	results    batcher[resultInput, bool]
	heartbeats batcher[heartbeatInput, bool]
}

// New checks the configuration. Run makes it work.
func New(cfg Config) (*Arbiter, error) {
	if err := cfg.Lease.Validate(); err != nil {
		return nil, apperr.Wrap(err, apperr.Invalid, "change the named settings", "the lease settings do not fit together")
	}
	if cfg.Leader == (LeaderSettings{}) {
		cfg.Leader = DefaultLeaderSettings
	}
	if cfg.Dispatch.Hold == 0 && cfg.Dispatch.RunShare == 0 {
		cfg.Dispatch = dispatch.DefaultPolicy
	}
	if cfg.SleepLead == 0 {
		cfg.SleepLead = DefaultSleepLead
	}
	if cfg.Holder == "" {
		cfg.Holder = uuid.NewString()
	}
	if cfg.SourceBytes == 0 {
		cfg.SourceBytes = 256 << 10
	}
	cfg.Runs = cfg.Runs.orDefaults()
	if cfg.Alarms == (alarm.Settings{}) {
		cfg.Alarms = alarm.Default
	}
	a := &Arbiter{
		cfg: cfg, db: cfg.DB, q: cfg.DB.Q, log: cfg.Logger, clock: cfg.Clock,
		watch: newWatchers(), tokens: newTokenCache(cfg.Clock), packages: newKnownPackages(), stopping: make(chan struct{}),
		match: (*dispatch.Board).Match, count: newCounters(),
		hooks: webhook.New(cfg.WebhookPrivate, "gavel/"+buildinfo.Version),
	}
	a.results = batcher[resultInput, bool]{do: a.recordResults, max: 250}
	a.heartbeats = batcher[heartbeatInput, bool]{do: a.extendLeases, max: 250}
	return a, nil
}

// Run stands for leadership and leads until ctx ends; losing leadership is
// normal and leads back to standing by. It returns nil on an orderly stop. It
// is called once.
func (a *Arbiter) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { close(a.stopping) })()
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { a.watchLoop(ctx) })
	for ctx.Err() == nil {
		l := a.campaign(ctx)
		if l == nil {
			return nil
		}
		a.current.Store(l)
		a.log.Info("leading", "term", l.term)
		lost := l.run(ctx)
		a.current.CompareAndSwap(l, nil)
		l.end(ctx)
		if ctx.Err() == nil {
			a.log.Warn("lost leadership", "term", l.term, "error", lost)
		} else {
			a.log.Info("stopped leading", "term", l.term)
		}
	}
	return nil
}

// leading returns the leadership under which a worker may be answered, or
// Unavailable.
func (a *Arbiter) leading() (*leadership, error) {
	l := a.current.Load()
	if l == nil || !l.mayAnswer() {
		return nil, apperr.New(apperr.Unavailable, "try again in a second", "this arbiter does not lead at the moment")
	}
	return l, nil
}

// unavailable wraps an error of the database for a caller: a database that
// cannot be asked is 503 and worth repeating, anything else is ours.
func unavailable(err error, doing string) error {
	if store.IsUnavailable(err) {
		why, hint := store.WhyUnavailable(err)
		return apperr.Wrap(err, apperr.Unavailable, hint, "%s (%s)", why, doing)
	}
	return apperr.Wrap(err, apperr.Internal, "", "could not %s", doing)
}

// mustJSON encodes values of our own types, which cannot fail.
func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("arbiter: encode own type: " + err.Error())
	}
	return raw
}
