package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gavel-oj/gavel/internal/agent"
	"github.com/gavel-oj/gavel/internal/config"
	"github.com/gavel-oj/gavel/internal/judge"
)

// Names in the state directory.
const (
	tokenName  = "token"
	configName = "worker.yaml"
)

const defaultStateDir = "/var/lib/gavel-worker"

// file is what enroll writes of worker.yaml. Secrets do not belong there; the
// token has a file of its own.
type file struct {
	URL  string `yaml:"url,omitempty"`
	Name string `yaml:"name,omitempty"`
}

// workerSettings are the settings of gavel-worker. The address of the arbiter
// is the whole product's GAVEL_URL.
var workerSettings = config.Set{
	Page: "docs/reference/worker.md", Prefix: "GAVEL_WORKER_",
	Others: []string{"GAVEL_WORKER_CONFIG", "GAVEL_WORKER_TOKEN", "GAVEL_WORKER_TOKEN_FILE", "GAVEL_WORKER_INVITATION"},
	Settings: []config.Setting{
		{Key: "url", Env: "GAVEL_URL", Note: "none", Says: "address of the arbiter"},
		{Key: "name", Env: "GAVEL_WORKER_NAME", Note: "the host's name", Says: "unique name, used when enrolling"},
		{Key: "state_dir", Env: "GAVEL_WORKER_STATE_DIR", Note: "$STATE_DIRECTORY, else " + defaultStateDir, Says: "token, outbox, cached packages; one process at a time"},
		{Key: "scratch_dir", Env: "GAVEL_WORKER_SCRATCH_DIR", Note: "scratch in the state directory", Says: "sources, programs and outputs while they are needed"},
		{Key: "slots", Env: "GAVEL_WORKER_SLOTS", Note: "number of physical cores", Says: "judgings at once; each has a core, and borrows idle ones for its tests", Kind: config.Number, Min: 1, Max: 1024},
		{Key: "grace", Env: "GAVEL_WORKER_GRACE", Default: "0s", Says: "how long running work may go on after SIGTERM", Kind: config.Duration},
		{Key: "cache_bytes", Env: "GAVEL_WORKER_CACHE_BYTES", Default: "4GiB", Says: "room for unpacked packages; those in use may exceed it", Kind: config.Size, Min: 1},
		{Key: "min_free_bytes", Env: "GAVEL_WORKER_MIN_FREE_BYTES", Default: "8MiB", Says: "claim nothing with less room than this in the state or the scratch directory", Kind: config.Size, Min: 1},
		{Key: "memory_bytes", Env: "GAVEL_WORKER_MEMORY_BYTES", Note: "the machine's, or the container's, less a quarter (at most 2 GiB)", Says: "memory for all programs that run at once, by their limits", Kind: config.Size, Min: 1},
		{Key: "compile_cache_bytes", Env: "GAVEL_WORKER_COMPILE_CACHE_BYTES", Default: "512MiB", Says: "room for compiled programs, so that a source is compiled once; 0 keeps none", Kind: config.Size},
		{Key: "no_precompiled_headers", Env: "GAVEL_WORKER_NO_PRECOMPILED_HEADERS", Default: "false", Says: "compile every source from its beginning, and keep no compiled headers", Kind: config.Switch},
		{Key: "allow_degraded", Env: "GAVEL_WORKER_ALLOW_DEGRADED", Default: "false", Says: "judge also without root or without cgroups, with weaker boxes; the arbiter is told what is weaker", Kind: config.Switch},
		{Key: "log", Env: "GAVEL_WORKER_LOG", Default: "auto", Says: "json, text, or text at a terminal and JSON elsewhere", Choices: []string{"auto", "json", "text"}},
		{Key: "read_only", Says: "host directories that boxes see, for languages outside /usr", Kind: config.List, NoFlag: true},
	},
}

// given is what one source says: setting → value.
type given map[string]string

// settings are the effective ones.
type settings struct {
	url          string
	name         string
	stateDir     string
	scratchDir   string
	slots        int
	grace        time.Duration
	cacheBytes   int64
	minFreeBytes int64
	memoryBytes  int64
	compileCache int64 // below 0: none
	noHeaders    bool
	log          string
	readOnly     []string
	degraded     bool

	token      string // from the environment
	tokenFile  string
	invitation string
	warnings   []string
}

// common are the flags that say where the worker's things are.
type common struct {
	Config   string `placeholder:"FILE" help:"Settings (default worker.yaml in the state directory, if there is one)."`
	URL      string `name:"url" placeholder:"URL" help:"Address of the arbiter ($$GAVEL_URL)."`
	StateDir string `placeholder:"DIR" help:"Token, outbox and cached packages (default /var/lib/gavel-worker)."`
}

// resolve merges flags over environment over file over defaults.
func resolve(c common, flags given, environ []string) (*settings, error) {
	env := config.Env(environ)
	flags["url"], flags["state_dir"] = c.URL, c.StateDir
	s := &settings{
		token: strings.TrimSpace(env["GAVEL_WORKER_TOKEN"]), tokenFile: env["GAVEL_WORKER_TOKEN_FILE"],
		invitation: strings.TrimSpace(env["GAVEL_WORKER_INVITATION"]),
	}
	if dir := env["CREDENTIALS_DIRECTORY"]; dir != "" && s.tokenFile == "" {
		if name := filepath.Join(dir, "gavel-worker-token"); exists(name) {
			s.tokenFile = name
		}
	}
	// The state directory may hold the file, so it is looked for first.
	stateDir := first(flags["state_dir"], env["GAVEL_WORKER_STATE_DIR"])
	name, must := first(c.Config, env["GAVEL_WORKER_CONFIG"]), true
	if name == "" {
		name, must = filepath.Join(first(stateDir, env["STATE_DIRECTORY"], defaultStateDir), configName), false
	}
	v, err := workerSettings.Resolve(config.Sources{Flags: flags, Environ: environ, File: name, Must: must})
	if err != nil {
		return nil, err
	}
	return s, s.fill(v, env["STATE_DIRECTORY"])
}

func (s *settings) fill(v *config.Values, systemdDir string) (err error) {
	s.warnings = v.Warnings
	s.url, s.name, s.log, s.readOnly = v.Text("url"), v.Text("name"), v.Text("log"), v.List("read_only")
	if s.stateDir, err = filepath.Abs(first(v.Text("state_dir"), systemdDir, defaultStateDir)); err != nil {
		return err
	}
	if s.scratchDir, err = filepath.Abs(first(v.Text("scratch_dir"), filepath.Join(s.stateDir, "scratch"))); err != nil {
		return err
	}
	if s.slots = int(v.Number("slots")); s.slots == 0 {
		s.slots = agent.DefaultSlots()
	}
	s.grace = v.Duration("grace")
	s.cacheBytes, s.minFreeBytes = v.Size("cache_bytes"), v.Size("min_free_bytes")
	if s.memoryBytes = v.Size("memory_bytes"); s.memoryBytes == 0 {
		s.memoryBytes = judge.DefaultMemoryBudget()
	}
	if s.compileCache = v.Size("compile_cache_bytes"); s.compileCache == 0 {
		s.compileCache = -1
	}
	s.noHeaders = v.Switch("no_precompiled_headers")
	s.degraded = v.Switch("allow_degraded")
	return nil
}

// logger writes JSON for machines, and lines for a person at a terminal.
func (s *settings) logger(w world) *slog.Logger {
	log := slog.New(logHandler(w, s.log))
	for _, warning := range s.warnings {
		log.Warn("setting ignored", "reason", warning)
	}
	return log
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
