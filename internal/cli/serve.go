package cli

import (
	"io"
	"log/slog"

	"github.com/lmittmann/tint"

	"github.com/gavel-oj/gavel/internal/alarm"
	"github.com/gavel-oj/gavel/internal/config"
	"github.com/gavel-oj/gavel/internal/health"
	"github.com/gavel-oj/gavel/internal/lease"
	"github.com/gavel-oj/gavel/internal/serve"
)

// ServeCmd runs an arbiter on a database that is there already. Each of its
// flags is a setting; settingsOf has their defaults and variables.
type ServeCmd struct {
	Config          string `placeholder:"FILE" help:"Settings file ($$GAVEL_CONFIG; default /etc/gavel/gavel.yaml, if it is there). Flags and GAVEL_* variables win over it."`
	DatabaseURL     string `name:"database-url" placeholder:"URL" help:"PostgreSQL to keep every fact in ($$GAVEL_DATABASE_URL)."`
	DatabaseURLFile string `name:"database-url-file" placeholder:"FILE" help:"File that holds the database's URL: others can see command lines."`
	DataDir         string `name:"data-dir" placeholder:"DIR" help:"Where packages are kept (default /var/lib/gavel)."`
	Listen          string `name:"listen" placeholder:"ADDR" help:"Address to listen on (default 127.0.0.1:7272)."`
	TLSCert         string `name:"tls-cert" placeholder:"FILE" help:"Certificate chain (PEM); without one the arbiter speaks plain HTTP, for a proxy in front of it."`
	TLSKey          string `name:"tls-key" placeholder:"FILE" help:"Private key of the certificate (PEM)."`
	AdminTokenFile  string `name:"admin-token-file" placeholder:"FILE" help:"Write a new administrator's token here (mode 0600) when the file does not hold a good one."`
	LeaseTTL        string `name:"lease-ttl" placeholder:"TIME" help:"How long a lease lives without a heartbeat (default 60s)."`
	Heartbeat       string `name:"heartbeat" placeholder:"TIME" help:"How often workers heartbeat; three must fit into a lease (default 5s)."`
	Attempts        string `name:"attempts" placeholder:"N" help:"Lost or failed attempts before a submission becomes a system error (default 3)."`
	SetAsideAfter   string `name:"set-aside-after" placeholder:"N" help:"Faults in a row after which a worker gets nothing but known-answer probes; 0 judges and probes nobody (default 3)."`
	SetAsideFor     string `name:"set-aside-for" placeholder:"TIME" help:"How long before the first probe; it doubles each time, up to an hour (default 1m)."`
	SleepLead       string `name:"sleep-lead" placeholder:"TIME" help:"How long before planned hours a worker gets nothing new (default 5m)."`
	AlarmWaiting    string `name:"alarm-waiting" placeholder:"TIME" help:"How long the oldest run or submission may wait before an alarm (default 2m)."`
	AlarmDown       string `name:"alarm-down" placeholder:"TIME" help:"How long nobody may be working while work waits before an alarm (default 1m)."`
	WebhookPrivate  bool   `name:"webhook-private" help:"Webhooks may go to addresses that are not public."`
	RunKeep         string `name:"run-keep" placeholder:"TIME" help:"How long the results of runs are kept (default 1h)."`
	MaxWaiting      string `name:"max-waiting-per-user" placeholder:"N" help:"Submissions and runs that one user may have waiting at once; more are refused. 0, the default, is any number."`
	MaxUploadMiB    string `name:"max-upload-mib" placeholder:"N" help:"Largest problem package (default 1024)."`
	MaxBodyMiB      string `name:"max-body-mib" placeholder:"N" help:"Largest body of any other call; a result may be four times that (default 4)."`
}

// checkServe is what the settings must be together.
func checkServe(v *config.Values) error {
	if v.Text("database_url") == "" {
		return usage("set --database-url or GAVEL_DATABASE_URL; gavel up brings a database of its own", "no database is given")
	}
	if (v.Text("tls_cert") == "") != (v.Text("tls_key") == "") {
		return usage("give both tls_cert and tls_key, or none", "a TLS certificate needs its key")
	}
	if err := leaseSettings(v).Validate(); err != nil {
		return usage("change lease_ttl, heartbeat or attempts", "%v", err)
	}
	return nil
}

func leaseSettings(v *config.Values) lease.Settings {
	s := lease.DefaultSettings
	s.TTL, s.Heartbeat, s.AttemptCap = v.Duration("lease_ttl"), v.Duration("heartbeat"), int(v.Number("attempts"))
	s.Confirm = min(s.Confirm, s.TTL)
	return s
}

func healthSettings(v *config.Values) health.Settings {
	s := health.Default
	s.Faults, s.Backoff = int(v.Number("set_aside_after")), v.Duration("set_aside_for")
	s.BackoffMax = max(s.BackoffMax, s.Backoff)
	return s
}

func alarmSettings(v *config.Values) alarm.Settings {
	s := alarm.Default
	s.Waiting, s.Down = v.Duration("alarm_waiting"), v.Duration("alarm_down")
	return s
}

// Run implements the command.
func (c *ServeCmd) Run(a *App) error {
	flags := map[string]string{
		"database_url": c.DatabaseURL, "database_url_file": c.DatabaseURLFile, "data_dir": c.DataDir, "listen": c.Listen,
		"tls_cert": c.TLSCert, "tls_key": c.TLSKey, "admin_token_file": c.AdminTokenFile, "lease_ttl": c.LeaseTTL,
		"heartbeat": c.Heartbeat, "attempts": c.Attempts, "set_aside_after": c.SetAsideAfter,
		"set_aside_for": c.SetAsideFor, "sleep_lead": c.SleepLead, "max_upload_mib": c.MaxUploadMiB, "max_body_mib": c.MaxBodyMiB,
		"alarm_waiting": c.AlarmWaiting, "alarm_down": c.AlarmDown,
		"run_keep": c.RunKeep, "max_waiting_per_user": c.MaxWaiting,
	}
	if c.WebhookPrivate {
		flags["webhook_private"] = "true"
	}
	v, err := a.resolve("serve", c.Config, flags)
	if err != nil {
		return err
	}
	if err := checkServe(v); err != nil {
		return err
	}
	log := slog.New(logHandler(a.Err, a.ErrTerminal && a.style.err))
	for _, w := range v.Warnings {
		log.Warn("setting ignored", "reason", w)
	}
	srv, err := serve.Start(a.Ctx, serve.Config{
		DatabaseURL: v.Text("database_url"), DataDir: v.Text("data_dir"), Listen: v.Text("listen"), TLSCert: v.Text("tls_cert"), TLSKey: v.Text("tls_key"),
		MaxUpload: v.Number("max_upload_mib") << 20, MaxBody: v.Number("max_body_mib") << 20, Lease: leaseSettings(v), Logger: log,
		Health: healthSettings(v), SleepLead: v.Duration("sleep_lead"),
		Alarms: alarmSettings(v), WebhookPrivate: v.Switch("webhook_private"),
		RunKeep: v.Duration("run_keep"), MaxWaitingPerUser: int(v.Number("max_waiting_per_user")),
	})
	if err != nil {
		return serverError(err)
	}
	if file := v.Text("admin_token_file"); file != "" {
		if _, err := srv.AdminToken(a.Ctx, file); err != nil {
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
