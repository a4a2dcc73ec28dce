package drill

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/internal/clock"
)

// compression is the factor by which times of an incident are shortened.
type compression float64

// of is how long a time of the incident takes in the replay.
func (c compression) of(d time.Duration) time.Duration { return time.Duration(float64(d) / float64(c)) }

// Times of the old worker, in the time of the incident.
const (
	oldPoll  = 500 * time.Millisecond
	oldSweep = 10 * time.Second
	oldTakes = 2 * time.Second // a judging
)

// oldWorkerSettings are those of the role old-worker.
type oldWorkerSettings struct {
	Name        string
	Role        string // home or server
	DatabaseURL string
	Factor      compression
	Path        oldPath
}

// oldWorker is one loop: sweep, claim, judge. The server's heartbeat is part of
// the sweep; home's is kept by a task of its own.
type oldWorker struct {
	oldWorkerSettings

	clk    clock.Clock
	log    *slog.Logger
	conn   *pgx.Conn
	swept  time.Time
	failed int // rounds in a row
}

func playOldWorker(ctx context.Context, s oldWorkerSettings, log *slog.Logger) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w := &oldWorker{oldWorkerSettings: s, clk: clock.System{}, log: log}
	var beside sync.WaitGroup
	defer beside.Wait()
	if s.Role == "home" {
		beside.Go(func() { w.beatOn(ctx) })
	}
	for ctx.Err() == nil {
		worked, err := w.step(ctx)
		if err != nil {
			w.log.Error("a round failed", "error", err)
		}
		if !worked {
			w.pause(ctx, oldPoll)
		}
	}
	return nil
}

func (w *oldWorker) pause(ctx context.Context, d time.Duration) {
	select {
	case <-w.clk.After(w.Factor.of(d)):
	case <-ctx.Done():
	}
}

// step is one round of the loop.
func (w *oldWorker) step(ctx context.Context) (worked bool, err error) {
	if w.conn == nil || w.conn.IsClosed() {
		if w.conn, err = pgx.Connect(ctx, w.DatabaseURL); err != nil {
			return false, err
		}
	}
	if now := w.clk.Now(); now.Sub(w.swept) >= w.Factor.of(oldSweep) {
		w.swept = now
		if w.Role == "server" {
			if err := w.beat(ctx, w.conn); err != nil {
				return false, err
			}
		}
		if err := w.oldReclaim(ctx); err != nil {
			return false, err
		}
	}
	id, broken, err := w.oldClaim(ctx)
	if herr := w.health(ctx, err != nil || broken); herr != nil {
		w.log.Error("health is not noted", "error", herr)
	}
	if err != nil || id == 0 {
		return false, err
	}
	w.pause(ctx, oldTakes)
	return true, w.oldFinalize(ctx, id)
}

// health counts failed rounds; three in a row are told to the others, where the
// version does that.
func (w *oldWorker) health(ctx context.Context, failed bool) error {
	before := w.failed
	w.failed++
	if !failed {
		w.failed = 0
	}
	if !w.Path.Savepoints || w.conn.IsClosed() || w.failed != 3 && (w.failed != 0 || before < 3) {
		return nil
	}
	_, err := w.conn.Exec(ctx, "update judge_workers set healthy = $2 where name = $1", w.Name, w.failed == 0)
	return err
}

func (w *oldWorker) beat(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, "insert into judge_workers (name, role) values ($1, $2) on conflict (name) do update set seen_at = now()", w.Name, w.Role)
	return err
}

// beatOn is home's heartbeat: another piece of code, with a session of its own,
// that knows nothing of how the claims go.
func (w *oldWorker) beatOn(ctx context.Context) {
	var conn *pgx.Conn
	for ctx.Err() == nil {
		var err error
		if conn == nil || conn.IsClosed() {
			conn, err = pgx.Connect(ctx, w.DatabaseURL)
		}
		if err == nil {
			err = w.beat(ctx, conn)
		}
		if err != nil {
			w.log.Error("the heartbeat failed", "error", err)
		}
		w.pause(ctx, oldSweep)
	}
}
