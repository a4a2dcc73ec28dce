package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/clock"
	"github.com/gavel-oj/gavel/internal/judge"
)

// Arbiter is what the agent calls. *client.Client implements it; errors are
// told apart as that package documents. Claim, Heartbeat, Result and Release
// are safe to repeat, and all are safe for concurrent use.
type Arbiter interface {
	Claim(ctx context.Context, in gavelapi.ClaimRequest) (*gavelapi.ClaimResponse, error)
	Heartbeat(ctx context.Context, in gavelapi.HeartbeatRequest) (*gavelapi.HeartbeatResponse, error)
	Result(ctx context.Context, in gavelapi.ResultRequest) (*gavelapi.ResultResponse, error)
	Release(ctx context.Context, in gavelapi.ReleaseRequest) (*gavelapi.ReleaseResponse, error)
	FetchPackage(ctx context.Context, digest string, offset int64) (*client.PackageStream, error)
}

// Defaults of Config.
const (
	DefaultCacheQuotaBytes = 4 << 30
	DefaultMinFreeBytes    = 8 << 20
	DefaultFetchLimit      = 15 * time.Minute
	DefaultCompileWall     = 60 * time.Second
	DefaultSlack           = 60 * time.Second
)

// Config is what an agent is made of. Client, Judge, StateDir, Slots and
// Capabilities are needed; the rest has defaults.
type Config struct {
	Client   Arbiter
	Judge    judge.Judge
	Runner   judge.Runner   // does leases of kind run; without one Capabilities must not name gavelapi.FeatureRun
	Verifier judge.Verifier // does leases of kind prepare; without one Capabilities must not name gavelapi.FeaturePrepare
	StateDir string         // session, outbox and packages; one process at a time
	State    *State         // StateDir already taken by the caller, who also closes it; or nil
	Slots    int
	// Capabilities is asked for each claim, so a worker may begin with what is
	// ready and offer more as it becomes so. It must name a language from the
	// start, and may be called from several goroutines.
	Capabilities func() gavelapi.Capabilities
	// OfferChanged, if there is one, gets a value when Capabilities says something
	// new: a claim that waits for work is then made anew at once. It should have
	// room for one value, so that nobody waits for the agent to look.
	OfferChanged <-chan struct{}
	CPUMeter     string // for provenance, as sandbox.Info

	Clock  clock.Clock
	Logger *slog.Logger

	// Grace is how long running work may go on after a stop is asked for.
	// 0 hands everything back at once.
	Grace time.Duration
	// CacheQuotaBytes bounds the unpacked packages kept, those in use aside.
	CacheQuotaBytes int64
	// WatchDirs are further directories that need room, such as the scratch
	// directory; StateDir always does.
	WatchDirs    []string
	MinFreeBytes int64
	// FetchLimit bounds the time that getting one package may take.
	FetchLimit time.Duration
	// CompileWall is the wall limit of compiling a language, for the bound
	// past which a run counts as stuck.
	CompileWall func(language string) time.Duration
	// Slack is added to that bound.
	Slack time.Duration
}

// withDefaults checks the configuration and fills in the rest.
func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Client == nil || c.Judge == nil || c.Logger == nil:
		return c, errors.New("worker: client, judge and logger are needed")
	case c.StateDir == "" && c.State == nil:
		return c, errors.New("worker: no state directory is given")
	case c.Slots < 1 || c.Slots > 1024:
		return c, fmt.Errorf("worker: %d slots; give 1 to 1024", c.Slots)
	case c.Capabilities == nil || len(c.Capabilities().Languages) == 0:
		return c, errors.New("worker: no language passed its self-test, so there is nothing to offer")
	case c.Grace < 0:
		return c, errors.New("worker: the grace period is negative")
	}
	if c.State != nil {
		c.StateDir = c.State.dir
	}
	if c.Clock == nil {
		c.Clock = clock.System{}
	}
	if c.CacheQuotaBytes <= 0 {
		c.CacheQuotaBytes = DefaultCacheQuotaBytes
	}
	if c.MinFreeBytes <= 0 {
		c.MinFreeBytes = DefaultMinFreeBytes
	}
	if c.FetchLimit <= 0 {
		c.FetchLimit = DefaultFetchLimit
	}
	if c.Slack <= 0 {
		c.Slack = DefaultSlack
	}
	if c.CompileWall == nil {
		c.CompileWall = func(string) time.Duration { return DefaultCompileWall }
	}
	return c, nil
}
