package cli

import (
	"io"
	"log/slog"
	"time"

	"github.com/lmittmann/tint"

	"github.com/gavel-oj/gavel/internal/lease"
	"github.com/gavel-oj/gavel/internal/serve"
)

// ServeCmd runs an arbiter on a database that is there already.
type ServeCmd struct {
	DatabaseURL  string        `name:"database-url" env:"GAVEL_DATABASE_URL" placeholder:"URL" help:"PostgreSQL to keep every fact in ($$GAVEL_DATABASE_URL)."`
	DataDir      string        `name:"data-dir" env:"GAVEL_DATA_DIR" default:"/var/lib/gavel" placeholder:"DIR" help:"Where packages are kept."`
	Listen       string        `name:"listen" env:"GAVEL_LISTEN" default:"127.0.0.1:7272" placeholder:"ADDR" help:"Address to listen on."`
	TLSCert      string        `name:"tls-cert" env:"GAVEL_TLS_CERT" placeholder:"FILE" help:"Certificate chain (PEM); without one the arbiter speaks plain HTTP, for a proxy in front of it."`
	TLSKey       string        `name:"tls-key" env:"GAVEL_TLS_KEY" placeholder:"FILE" help:"Private key of the certificate (PEM)."`
	TokenFile    string        `name:"admin-token-file" env:"GAVEL_ADMIN_TOKEN_FILE" placeholder:"FILE" help:"Write a new administrator's token here (mode 0600) when the file does not hold a good one."`
	LeaseTTL     time.Duration `name:"lease-ttl" env:"GAVEL_LEASE_TTL" default:"60s" help:"How long a lease lives without a heartbeat."`
	Heartbeat    time.Duration `name:"heartbeat" env:"GAVEL_HEARTBEAT" default:"5s" help:"How often workers heartbeat; three must fit into a lease."`
	AttemptCap   int           `name:"attempts" env:"GAVEL_ATTEMPTS" default:"3" help:"Lost or failed attempts before a submission becomes a system error."`
	MaxUploadMiB int64         `name:"max-upload-mib" env:"GAVEL_MAX_UPLOAD_MIB" default:"1024" help:"Largest problem package."`
	MaxBodyMiB   int64         `name:"max-body-mib" env:"GAVEL_MAX_BODY_MIB" default:"4" help:"Largest body of any other call; a result may be four times that."`
}

// Run implements the command.
func (c *ServeCmd) Run(a *App) error {
	if c.DatabaseURL == "" {
		return usage("set --database-url or GAVEL_DATABASE_URL; gavel up brings a database of its own", "no database is given")
	}
	if c.MaxUploadMiB < 1 {
		return usage("give a number from 1 on", "--max-upload-mib must be positive")
	}
	if c.MaxBodyMiB < 1 {
		return usage("give a number from 1 on", "--max-body-mib must be positive")
	}
	settings := lease.DefaultSettings
	settings.TTL, settings.Heartbeat, settings.AttemptCap = c.LeaseTTL, c.Heartbeat, c.AttemptCap
	settings.Confirm = min(settings.Confirm, settings.TTL)
	log := slog.New(logHandler(a.Err, a.ErrTerminal && a.style.err))
	srv, err := serve.Start(a.Ctx, serve.Config{
		DatabaseURL: c.DatabaseURL, DataDir: c.DataDir, Listen: c.Listen, TLSCert: c.TLSCert, TLSKey: c.TLSKey,
		MaxUpload: c.MaxUploadMiB << 20, MaxBody: c.MaxBodyMiB << 20, Lease: settings, Logger: log,
	})
	if err != nil {
		return serverError(err)
	}
	if c.TokenFile != "" {
		if _, err := srv.AdminToken(a.Ctx, c.TokenFile); err != nil {
			_ = srv.Close(a.Ctx) // the reason to stop is the one below
			return serverError(err)
		}
	}
	err = srv.Wait(a.Ctx)
	if closeErr := srv.Close(a.Ctx); err == nil {
		err = closeErr
	}
	return serverError(err)
}

// logHandler writes JSON for machines, and lines for a person at a terminal.
func logHandler(w io.Writer, terminal bool) slog.Handler {
	if terminal {
		return tint.NewTextHandler(w, &tint.Options{TimeFormat: "15:04:05"})
	}
	return slog.NewJSONHandler(w, nil)
}
