package cli

import (
	"cmp"
	"path/filepath"
	"time"

	"github.com/gavel-oj/gavel/internal/config"
)

// DefaultConfigFile is what `gavel serve` reads when no file is named and this
// one is there.
const DefaultConfigFile = "/etc/gavel/gavel.yaml"

// configName is the file that `gavel up` reads in its data directory.
const configName = "gavel.yaml"

var (
	settingDataDir = config.Setting{Key: "data_dir", Env: "GAVEL_DATA_DIR", Says: "where packages are kept; gavel up keeps everything there"}
	settingListen  = config.Setting{Key: "listen", Env: "GAVEL_LISTEN", Default: "127.0.0.1:7272", Says: "address to listen on; port 0 picks a free one"}
)

// both are further settings of either command.
var both = []config.Setting{
	{Key: "run_keep", Env: "GAVEL_RUN_KEEP", Default: "1h", Says: "how long the results of runs are kept", Kind: config.Duration, Min: int64(time.Second)},
	{Key: "max_waiting_per_user", Env: "GAVEL_MAX_WAITING_PER_USER", Default: "0", Says: "submissions and runs that one user may have waiting at once; more are refused; 0 is any number", Kind: config.Number, Max: 1 << 20},
	{Key: "webhook_private", Env: "GAVEL_WEBHOOK_PRIVATE", Default: "false", Says: "webhooks may go to addresses that are not public", Kind: config.Switch},
}

// serveOnly and upOnly are what the other command has no use for. One file may
// hold the settings of both.
var serveOnly = []config.Setting{
	{Key: "database_url", Env: "GAVEL_DATABASE_URL", Note: "none", Says: "PostgreSQL to keep every fact in", Secret: true, Credential: "gavel-database-url"},
	{Key: "tls_cert", Env: "GAVEL_TLS_CERT", Note: "plain HTTP", Says: "certificate chain (PEM); without one the arbiter speaks plain HTTP, for a proxy in front of it"},
	{Key: "tls_key", Env: "GAVEL_TLS_KEY", Note: "none", Says: "private key of the certificate (PEM)"},
	{Key: "admin_token_file", Env: "GAVEL_ADMIN_TOKEN_FILE", Note: "none", Says: "a new administrator's token is written here (mode 0600) when the file does not hold a good one"},
	{Key: "lease_ttl", Env: "GAVEL_LEASE_TTL", Default: "60s", Says: "how long a lease lives without a heartbeat", Kind: config.Duration, Min: 1},
	{Key: "heartbeat", Env: "GAVEL_HEARTBEAT", Default: "5s", Says: "how often workers heartbeat; three must fit into a lease", Kind: config.Duration, Min: 1},
	{Key: "attempts", Env: "GAVEL_ATTEMPTS", Default: "3", Says: "lost or failed attempts before a submission becomes a system error", Kind: config.Number, Min: 1, Max: 1000},
	{Key: "set_aside_after", Env: "GAVEL_SET_ASIDE_AFTER", Default: "3", Says: "faults in a row after which a worker gets nothing but known-answer probes; 0 judges and probes nobody", Kind: config.Number, Max: 1000},
	{Key: "set_aside_for", Env: "GAVEL_SET_ASIDE_FOR", Default: "1m", Says: "how long before the first probe; it doubles each time, up to an hour", Kind: config.Duration, Min: 1},
	{Key: "sleep_lead", Env: "GAVEL_SLEEP_LEAD", Default: "5m", Says: "how long before planned hours a worker gets nothing new", Kind: config.Duration, Min: 1},
	{Key: "alarm_waiting", Env: "GAVEL_ALARM_WAITING", Default: "2m", Says: "how long the oldest run or submission may wait before an alarm", Kind: config.Duration, Min: int64(time.Second)},
	{Key: "alarm_down", Env: "GAVEL_ALARM_DOWN", Default: "1m", Says: "how long nobody may be working while work waits before an alarm", Kind: config.Duration, Min: int64(time.Second)},
	{Key: "max_upload_mib", Env: "GAVEL_MAX_UPLOAD_MIB", Default: "1024", Says: "largest problem package, in MiB", Kind: config.Number, Min: 1, Max: 1 << 20},
	{Key: "max_body_mib", Env: "GAVEL_MAX_BODY_MIB", Default: "4", Says: "largest body of any other call, in MiB; a result may be four times that", Kind: config.Number, Min: 1, Max: 1024},
}

var upOnly = []config.Setting{
	{Key: "slots", Env: "GAVEL_SLOTS", Default: "0", Says: "submissions judged at once; 0 lets the worker choose from the machine's cores", Kind: config.Number, Max: 1024},
	{Key: "no_samples", Env: "GAVEL_NO_SAMPLES", Default: "false", Says: "do not import and judge the example problems", Kind: config.Switch},
}

// settingsOf are the settings of a command, and those that it has no use for
// but a file may hold.
func settingsOf(command string) config.Set {
	dir, listen := settingDataDir, settingListen
	dir.Default = "/var/lib/gavel"
	if command == "up" {
		dir.Default = ".data"
	}
	s := config.Set{
		Page: "docs/reference/configuration.md", Prefix: "GAVEL_",
		Others:   []string{"GAVEL_CONFIG", "GAVEL_URL", "GAVEL_TOKEN", "GAVEL_TOKEN_FILE", "GAVEL_NO_INSTALL"},
		Foreign:  []string{"GAVEL_WORKER_", "GAVEL_TEST_", "GAVEL_DRILL_"},
		Settings: append([]config.Setting{dir, listen}, both...),
	}
	s.Settings = append(append(s.Settings, serveOnly...), upOnly...)
	return s
}

// concerns reports whether a command uses a setting.
func concerns(command, key string) bool {
	other := upOnly
	if command == "up" {
		other = serveOnly
	}
	for _, s := range other {
		if s.Key == key {
			return false
		}
	}
	return true
}

// resolve finds the settings of a command. Mistakes are usage errors.
func (a *App) resolve(command, file string, flags map[string]string) (*config.Values, error) {
	env := config.Env(a.Environ)
	src := config.Sources{Flags: flags, Environ: a.Environ, File: cmp.Or(file, env["GAVEL_CONFIG"]), Must: true}
	if src.File == "" {
		src.File, src.Must = DefaultConfigFile, false
		if command == "up" { // where it keeps everything else
			src.File = filepath.Join(cmp.Or(flags["data_dir"], env["GAVEL_DATA_DIR"], ".data"), configName)
		}
	}
	v, err := settingsOf(command).Resolve(src)
	if err != nil {
		return nil, configError(err)
	}
	return v, nil
}

// ConfigCmd is `gavel config`.
type ConfigCmd struct {
	Show   ConfigShowCmd   `cmd:"" help:"Show the effective settings of gavel serve or gavel up, and where each comes from."`
	Check  ConfigCheckCmd  `cmd:"" help:"Check the settings, and start nothing."`
	Schema ConfigSchemaCmd `cmd:"" help:"Print the JSON Schema of the settings file, for editors."`
}

// configOf is what the commands about settings have in common.
type configOf struct {
	For    string `enum:"serve,up" default:"serve" placeholder:"COMMAND" help:"Whose settings: serve (default) or up."`
	Config string `placeholder:"FILE" help:"Settings file ($$GAVEL_CONFIG; default /etc/gavel/gavel.yaml; for up, gavel.yaml in the data directory)."`
}

// ConfigShowCmd is `gavel config show`.
type ConfigShowCmd struct {
	configOf `embed:""`

	Origin bool `help:"Also where each value comes from."`
}

// shownSetting is a setting in -o json.
type shownSetting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

// Run implements kong's command.
func (c *ConfigShowCmd) Run(a *App) error {
	v, err := a.resolve(c.For, c.Config, nil)
	if err != nil {
		return err
	}
	a.warn(v)
	var rows []shownSetting
	for _, x := range v.All() {
		if concerns(c.For, x.Key) {
			rows = append(rows, shownSetting{x.Key, x.Shown(), x.Origin})
		}
	}
	cols := []column[shownSetting]{
		{name: "SETTING", cell: func(s shownSetting) cell { return text(s.Key) }},
		{name: "VALUE", flex: 20, cell: func(s shownSetting) cell { return text(orDash(s.Value)) }},
		{name: "ORIGIN", flex: 20, wide: !c.Origin, cell: func(s shownSetting) cell { return text(s.Origin) }},
	}
	return printItems(a, rows, map[string]any{"settings": rows}, func(s shownSetting) string { return s.Key }, cols)
}

// ConfigCheckCmd is `gavel config check`.
type ConfigCheckCmd struct {
	configOf `embed:""`
}

// Run implements kong's command.
func (c *ConfigCheckCmd) Run(a *App) error {
	v, err := a.resolve(c.For, c.Config, nil)
	if err != nil {
		return err
	}
	a.warn(v)
	if c.For == "serve" {
		if err := checkServe(v); err != nil {
			return err
		}
	}
	a.note("the settings of gavel %s are in order", c.For)
	return nil
}

// ConfigSchemaCmd is `gavel config schema`.
type ConfigSchemaCmd struct{}

// Run implements kong's command.
func (c *ConfigSchemaCmd) Run(a *App) error { return a.json(settingsOf("serve").Schema(), "  ") }

func (a *App) warn(v *config.Values) {
	for _, w := range v.Warnings {
		a.note("warning: %s", w)
	}
}
