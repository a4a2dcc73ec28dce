package drill

import (
	"context"
	"errors"
	"log/slog"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/internal/health"
	"github.com/gavel-oj/gavel/internal/lease"
	"github.com/gavel-oj/gavel/internal/serve"
)

// arbiterSettings are those of the role arbiter: what `gavel serve` runs, with
// settings that it has no flags for.
type arbiterSettings struct {
	DatabaseURL, DataDir, Listen, TokenFile string
	Lease                                   lease.Settings
	Health                                  health.Settings
}

func playArbiter(ctx context.Context, s arbiterSettings, log *slog.Logger) error {
	ctx, stop := signal.NotifyContext(ctx, unix.SIGTERM)
	defer stop()
	srv, err := serve.Start(ctx, serve.Config{
		DatabaseURL: s.DatabaseURL, DataDir: s.DataDir, Listen: s.Listen, Lease: s.Lease, Health: s.Health, Logger: log,
	})
	if err != nil {
		return err
	}
	if _, err := srv.AdminToken(ctx, s.TokenFile); err != nil {
		return errors.Join(err, srv.Close(ctx))
	}
	return errors.Join(srv.Wait(ctx), srv.Close(ctx))
}
