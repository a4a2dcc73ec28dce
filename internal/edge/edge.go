package edge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/clock"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// Defaults of Config, those of the old way.
const (
	DefaultPoll  = 500 * time.Millisecond
	DefaultSweep = 10 * time.Second
)

// callLimit bounds one call: the statement limit of the session, and a little
// for the way.
const callLimit = 12 * time.Second

// failedRounds in a row make a worker unhealthy; the database counts the same.
const failedRounds = 3

// Config is what a Client needs. DB is opened with the role store.EdgeRole.
type Config struct {
	DB   *store.DB
	Name string // of the worker; its row is made at the first call
	Pool string // "" is default
	Rank int    // of the pool, if nobody has named it yet: a lower one is preferred
	// Poll is how often an idle worker looks for work, give or take a tenth, so
	// that many do not look at the same instant.
	Poll  time.Duration
	Sweep time.Duration // how often it takes expired leases back

	Packages Packages
	Clock    clock.Clock
	Logger   *slog.Logger
}

// Client makes a worker's calls on the database. It has the methods of
// worker.Arbiter, which tell errors apart as package client documents.
type Client struct {
	cfg Config
	q   *storedb.Queries
	log *slog.Logger

	mu       sync.Mutex
	workerID int64  // 0 until the database knows us
	greeted  string // the session that it knows us by
	turn     int
	failing  int                  // claims in a row that ended in an error
	said     time.Time            // when a failing round was last logged
	lacks    map[string]time.Time // packages that could not be had, until when to leave them alone
}

// New checks the configuration. Nothing is asked of the database yet.
func New(cfg Config) (*Client, error) {
	if cfg.DB == nil || cfg.Packages == nil || cfg.Logger == nil || cfg.Name == "" {
		return nil, errors.New("edge: database, packages, logger and name are needed")
	}
	if cfg.Poll <= 0 {
		cfg.Poll = DefaultPoll
	}
	if cfg.Sweep <= 0 {
		cfg.Sweep = DefaultSweep
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.System{}
	}
	return &Client{cfg: cfg, q: cfg.DB.Q, log: cfg.Logger, lacks: map[string]time.Time{}}, nil
}

// query is one of the statements of queries/edge.sql.
type query func(ctx context.Context, db storedb.DBTX, request json.RawMessage) (json.RawMessage, error)

// ask makes one call. Its error is a *gavelapi.Problem when the database
// refused the call for what it says, else a *client.Unreachable: a database
// that is away and a grant that somebody forgot are both worth asking again.
func (c *Client) ask(ctx context.Context, op string, q query, request, answer any) error {
	raw, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("%s: encode: %w", op, err)
	}
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	got, err := q(limited, c.cfg.DB.Pool, raw)
	if err != nil {
		return c.refusal(ctx, op, err)
	}
	if err := json.Unmarshal(got, answer); err != nil {
		return &client.Unreachable{Op: op, From: "the database", Err: fmt.Errorf("its answer cannot be read: %w", err)}
	}
	return nil
}

// statuses of the functions' own SQLSTATEs.
var statuses = map[string]int{
	"GV403": http.StatusForbidden, "GV409": http.StatusConflict,
	"GV422": http.StatusUnprocessableEntity, "GV429": http.StatusTooManyRequests,
}

func (c *Client) refusal(ctx context.Context, op string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", op, context.Cause(ctx))
	}
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if ok && statuses[pg.Code] != 0 {
		return &gavelapi.Problem{Status: statuses[pg.Code], Title: http.StatusText(statuses[pg.Code]), Detail: pg.Message, Hint: pg.Hint}
	}
	if ok && pg.Code == "42704" { // "invalid role OID": the functions ask for the session's login
		return &gavelapi.Problem{
			Status: http.StatusForbidden, Title: http.StatusText(http.StatusForbidden), Detail: "the worker's database login was dropped: " + pg.Message,
			Hint: "where the worker has gone over to the arbiter, start gavel-worker; else let a superuser make the login again",
		}
	}
	if ok && (pg.Code == "42501" || pg.Code == "42883") {
		err = fmt.Errorf("the login may not do what an edge worker does; was it made a member of %s, and the database migrated? %w", store.EdgeRole, err)
	}
	return &client.Unreachable{Op: op, From: "the database", Err: err}
}

// me is what every request says of its sender.
type me struct {
	WorkerID int64 `json:"worker_id"`
}

// hello makes the worker known, once.
func (c *Client) hello(ctx context.Context) (me, error) {
	c.mu.Lock()
	id := c.workerID
	c.mu.Unlock()
	if id != 0 {
		return me{id}, nil
	}
	return c.greet(ctx, "", "")
}

// helloAs is hello of a claim, which says whose process this is: the worker's pool
// changes only with the process that has its name.
func (c *Client) helloAs(ctx context.Context, session, previous string) (me, error) {
	c.mu.Lock()
	id, greeted := c.workerID, c.greeted
	c.mu.Unlock()
	if id != 0 && greeted == session {
		return me{id}, nil
	}
	return c.greet(ctx, session, previous)
}

func (c *Client) greet(ctx context.Context, session, previous string) (me, error) {
	request := struct {
		Name string `json:"name"`
		Pool string `json:"pool"`
		Rank int    `json:"rank"`
		// Session and PreviousSession are those of a claim, or "".
		Session         string `json:"session,omitempty"`
		PreviousSession string `json:"previous_session,omitempty"`
	}{c.cfg.Name, c.cfg.Pool, c.cfg.Rank, session, previous}
	var answer struct {
		me
		Pool string `json:"pool"`
		Kept bool   `json:"kept"` // an operator has chosen the pool
		Rank int    `json:"rank"`
	}
	if err := c.ask(ctx, "hello", c.q.EdgeHello, request, &answer); err != nil {
		// The name is somebody else's, and stays so however often it is asked for. A
		// conflict would be waited out, as that of a process which is about to end.
		if p, ok := errors.AsType[*gavelapi.Problem](err); ok && p.Status == http.StatusConflict {
			p.Status, p.Title = http.StatusForbidden, http.StatusText(http.StatusForbidden)
		}
		return me{}, err
	}
	c.mu.Lock()
	first := c.greeted == "" && session != ""
	c.workerID, c.greeted = answer.WorkerID, session
	c.mu.Unlock()
	if !first {
		return answer.me, nil
	}
	c.log.Info("known to the database", "worker", c.cfg.Name, "worker_id", answer.WorkerID, "pool", answer.Pool, "rank", answer.Rank)
	switch {
	case answer.Kept:
		c.log.Warn("an operator has put this worker into another pool, which counts until gavel worker label puts it back", "pool", answer.Pool, "asked_for", c.cfg.Pool)
	case answer.Rank != c.cfg.Rank:
		c.log.Warn("the pool has another rank already, which counts", "pool", answer.Pool, "rank", answer.Rank, "asked_for", c.cfg.Rank)
	}
	return answer.me, nil
}

// Keep takes expired leases back, all workers' and not only this one's, until
// ctx ends. There is nobody else who does when no arbiter leads.
func (c *Client) Keep(ctx context.Context) {
	ticker := c.cfg.Clock.NewTicker(c.cfg.Sweep)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if _, _, err := c.Reclaim(ctx); err != nil && ctx.Err() == nil {
			c.log.Warn("reclaiming failed", "error", err)
		}
	}
}

// Reclaim ends leases that are past their time.
func (c *Client) Reclaim(ctx context.Context) (requeued, ended int, err error) {
	who, err := c.hello(ctx)
	if err != nil {
		return 0, 0, err
	}
	var answer struct{ Requeued, Ended int }
	if err := c.ask(ctx, "reclaim", c.q.EdgeReclaim, who, &answer); err != nil {
		return 0, 0, err
	}
	if answer.Requeued > 0 || answer.Ended > 0 {
		c.log.Warn("leases of lost workers taken back", "requeued", answer.Requeued, "system_errors", answer.Ended)
	}
	return answer.Requeued, answer.Ended, nil
}
