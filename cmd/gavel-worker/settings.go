package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/worker"
)

// Names in the state directory.
const (
	tokenName  = "token"
	configName = "worker.yaml"
)

const defaultStateDir = "/var/lib/gavel-worker"

// file is worker.yaml. Secrets do not belong there; the token has a file of
// its own.
type file struct {
	URL          string   `yaml:"url,omitempty"`
	Name         string   `yaml:"name,omitempty"`
	StateDir     string   `yaml:"state_dir,omitempty"`
	ScratchDir   string   `yaml:"scratch_dir,omitempty"`
	Slots        string   `yaml:"slots,omitempty"`
	Grace        string   `yaml:"grace,omitempty"`
	CacheBytes   string   `yaml:"cache_bytes,omitempty"`
	MinFreeBytes string   `yaml:"min_free_bytes,omitempty"`
	MemoryBytes  string   `yaml:"memory_bytes,omitempty"`
	Log          string   `yaml:"log,omitempty"`
	ReadOnly     []string `yaml:"read_only,omitempty"`
}

// given is what one source says: setting → value.
type given map[string]string

// The settings. Each is a flag (dashes), a variable (GAVEL_WORKER_ and
// capitals; the address of the arbiter is the whole product's GAVEL_URL) and a
// key of worker.yaml.
var settingNames = []string{"url", "name", "state_dir", "scratch_dir", "slots", "grace", "cache_bytes", "min_free_bytes", "memory_bytes", "log"}

// variables that are no settings of worker.yaml.
var otherVariables = []string{"GAVEL_WORKER_CONFIG", "GAVEL_WORKER_TOKEN", "GAVEL_WORKER_TOKEN_FILE", "GAVEL_WORKER_INVITATION"}

func variable(setting string) string {
	if setting == "url" {
		return "GAVEL_URL"
	}
	return "GAVEL_WORKER_" + strings.ToUpper(setting)
}

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
	log          string
	readOnly     []string

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
	env := map[string]string{}
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok && v != "" {
			env[k] = v
		}
	}
	flags["url"], flags["state_dir"] = c.URL, c.StateDir
	s := &settings{
		token: strings.TrimSpace(env["GAVEL_WORKER_TOKEN"]), tokenFile: env["GAVEL_WORKER_TOKEN_FILE"],
		invitation: strings.TrimSpace(env["GAVEL_WORKER_INVITATION"]), warnings: unknownVariables(env),
	}
	if dir := env["CREDENTIALS_DIRECTORY"]; dir != "" && s.tokenFile == "" {
		if name := filepath.Join(dir, "gavel-worker-token"); exists(name) {
			s.tokenFile = name
		}
	}
	// The state directory may hold the file, so it is looked for first.
	stateDir := first(flags["state_dir"], env[variable("state_dir")])
	name, must := first(c.Config, env["GAVEL_WORKER_CONFIG"]), true
	if name == "" {
		name, must = filepath.Join(first(stateDir, env["STATE_DIRECTORY"], defaultStateDir), configName), false
	}
	fromFile, readOnly, err := readFile(name, must)
	if err != nil {
		return nil, err
	}
	s.readOnly = readOnly
	get := func(setting string) (value, origin string) {
		switch {
		case flags[setting] != "":
			return flags[setting], "--" + strings.ReplaceAll(setting, "_", "-")
		case env[variable(setting)] != "":
			return env[variable(setting)], variable(setting)
		case fromFile[setting] != "":
			return fromFile[setting], name + ": " + setting
		}
		return "", ""
	}
	return s, s.fill(get, env["STATE_DIRECTORY"])
}

func (s *settings) fill(get func(string) (string, string), systemdDir string) error {
	var err error
	text := func(setting, def string) string {
		v, _ := get(setting)
		return first(v, def)
	}
	s.url, s.name, s.log = text("url", ""), text("name", ""), text("log", "auto")
	if s.stateDir, err = filepath.Abs(text("state_dir", first(systemdDir, defaultStateDir))); err != nil {
		return err
	}
	if s.scratchDir, err = filepath.Abs(text("scratch_dir", filepath.Join(s.stateDir, "scratch"))); err != nil {
		return err
	}
	s.slots = defaultSlots()
	if v, origin := get("slots"); v != "" {
		if s.slots, err = strconv.Atoi(v); err != nil || s.slots < 1 || s.slots > 1024 {
			return usage("give the number of judgings at once, 1 to 1024; the number of cores is a good one", "%s is not a number of slots", origin)
		}
	}
	if v, origin := get("grace"); v != "" {
		if s.grace, err = time.ParseDuration(v); err != nil || s.grace < 0 {
			return usage("give a duration such as 30s or 5m; 0s hands work back at once", "%s is not a duration", origin)
		}
	}
	for _, size := range []struct {
		setting string
		to      *int64
		def     int64
	}{
		{"cache_bytes", &s.cacheBytes, worker.DefaultCacheQuotaBytes},
		{"min_free_bytes", &s.minFreeBytes, worker.DefaultMinFreeBytes},
		{"memory_bytes", &s.memoryBytes, judge.DefaultMemoryBudget()},
	} {
		*size.to = size.def
		if v, origin := get(size.setting); v != "" {
			if *size.to, err = parseBytes(v); err != nil {
				return usage("give a number of bytes, or one with KiB, MiB, GiB or TiB", "%s is not a size", origin)
			}
		}
	}
	if !slices.Contains([]string{"auto", "json", "text"}, s.log) {
		_, origin := get("log")
		return usage("choose auto, json or text", "%s names no form of log", origin)
	}
	return nil
}

// readFile reads settings strictly. One that need not exist may be missing.
func readFile(name string, must bool) (given, []string, error) {
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) && !must {
		return given{}, nil, nil
	}
	if err != nil {
		return nil, nil, usage("give a readable file with --config", "the settings cannot be read: %v", err)
	}
	var f file
	if err := yaml.UnmarshalWithOptions(b, &f, yaml.Strict()); err != nil && len(strings.TrimSpace(string(b))) > 0 {
		return nil, nil, usage("docs/reference/worker.md lists the keys", "%s: %s", name, yaml.FormatError(err, false, true))
	}
	return given{
		"url": f.URL, "name": f.Name, "state_dir": f.StateDir, "scratch_dir": f.ScratchDir, "slots": f.Slots, "grace": f.Grace,
		"cache_bytes": f.CacheBytes, "min_free_bytes": f.MinFreeBytes, "memory_bytes": f.MemoryBytes, "log": f.Log,
	}, f.ReadOnly, nil
}

// unknownVariables warns of variables that look like settings and are none.
func unknownVariables(env map[string]string) []string {
	known := slices.Clone(otherVariables)
	for _, s := range settingNames {
		known = append(known, variable(s))
	}
	var out []string
	for k := range env {
		if strings.HasPrefix(k, "GAVEL_WORKER_") && !slices.Contains(known, k) {
			best := slices.MinFunc(known, func(a, b string) int { return distance(k, a) - distance(k, b) })
			out = append(out, fmt.Sprintf("the variable %s means nothing; was %s meant?", k, best))
		}
	}
	slices.Sort(out)
	return out
}

// distance is the number of edits between two names.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

func parseBytes(s string) (int64, error) {
	shift := 0
	for i, unit := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if n, ok := strings.CutSuffix(s, unit); ok {
			s, shift = strings.TrimSpace(n), 10*(i+1)
			break
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 || n > 1<<62>>shift {
		return 0, errors.New("not a size")
	}
	return n << shift, nil
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
