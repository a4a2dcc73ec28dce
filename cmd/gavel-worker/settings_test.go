package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/internal/config"
)

func TestFlagBeatsEnvironmentBeatsFileBeatsDefault(t *testing.T) {
	dir := t.TempDir()
	text := "url: http://file:1\nslots: 2\ngrace: 10s\ncache_bytes: 2GiB\nread_only: [/opt/jdk]\n"
	if err := os.WriteFile(filepath.Join(dir, configName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	type effective struct {
		URL   string
		Slots int
		Grace time.Duration
		Cache int64
	}
	for name, tc := range map[string]struct {
		url     string
		flags   given
		environ []string
		want    effective
	}{
		"file": {"", given{}, nil, effective{"http://file:1", 2, 10 * time.Second, 2 << 30}},
		"environment over file": {
			"",
			given{},
			[]string{"GAVEL_URL=http://env:1", "GAVEL_WORKER_SLOTS=3", "GAVEL_WORKER_GRACE="},
			effective{"http://env:1", 3, 10 * time.Second, 2 << 30},
		},
		"flag over environment": {
			"http://flag:1",
			given{"slots": "4", "cache_bytes": "512 MiB"},
			[]string{"GAVEL_URL=http://env:1", "GAVEL_WORKER_SLOTS=3"},
			effective{"http://flag:1", 4, 10 * time.Second, 512 << 20},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := resolve(common{StateDir: dir, URL: tc.url}, tc.flags, tc.environ)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, effective{s.url, s.slots, s.grace, s.cacheBytes}); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff([]string{"/opt/jdk"}, s.readOnly); d != "" {
				t.Error(d)
			}
			if s.scratchDir != filepath.Join(dir, "scratch") {
				t.Errorf("scratch directory %s", s.scratchDir)
			}
		})
	}
}

func TestWeakerBoxesHaveToBeAllowed(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, configName), []byte("allow_degraded: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		dir     string
		flags   given
		environ []string
		want    bool
	}{
		"default":               {t.TempDir(), given{}, nil, false},
		"file":                  {dir, given{}, nil, true},
		"environment":           {t.TempDir(), given{}, []string{"GAVEL_WORKER_ALLOW_DEGRADED=1"}, true},
		"environment over file": {dir, given{}, []string{"GAVEL_WORKER_ALLOW_DEGRADED=false"}, false},
		"flag":                  {t.TempDir(), given{"allow_degraded": "true"}, []string{"GAVEL_WORKER_ALLOW_DEGRADED=false"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := resolve(common{StateDir: tc.dir}, tc.flags, tc.environ)
			if err != nil || s.degraded != tc.want {
				t.Errorf("degraded %v, %v; want %t", s, err, tc.want)
			}
		})
	}
	if _, err := resolve(common{StateDir: dir}, given{}, []string{"GAVEL_WORKER_ALLOW_DEGRADED=perhaps"}); err == nil {
		t.Error("a value that is neither true nor false is taken")
	}
}

func TestUnknownKeyIsAnErrorThatShowsTheLine(t *testing.T) {
	name := filepath.Join(t.TempDir(), "w.yaml")
	if err := os.WriteFile(name, []byte("url: http://h:1\nslot: 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := resolve(common{Config: name}, given{}, nil)
	if f := explain(err); err == nil || f.code != exitUsage || !strings.Contains(f.message, "slot: 3") {
		t.Errorf("got %v", err)
	}
}

func TestUnknownVariableIsAWarningWithASuggestion(t *testing.T) {
	s, err := resolve(common{StateDir: t.TempDir()}, given{}, []string{"GAVEL_WORKER_SLOT=3", "GAVEL_OTHER=1"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"the variable GAVEL_WORKER_SLOT means nothing; was GAVEL_WORKER_SLOTS meant?"}
	if d := cmp.Diff(want, s.warnings); d != "" {
		t.Error(d)
	}
}

func TestTokenComesFromASystemdCredential(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "gavel-worker-token"), []byte("gvl_w_x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := resolve(common{StateDir: t.TempDir()}, given{}, []string{"CREDENTIALS_DIRECTORY=" + dir})
	if err != nil {
		t.Fatal(err)
	}
	if token, err := s.credentials(t.Context(), nil, nil); token != "gvl_w_x" || err != nil {
		t.Errorf("token %q, %v", token, err)
	}
}

func TestCompileSpeedSettings(t *testing.T) {
	for name, tc := range map[string]struct {
		flags   given
		environ []string
		text    string
		cache   int64
		none    bool
	}{
		"default":     {given{}, nil, "", 512 << 20, false},
		"file":        {given{}, nil, "compile_cache_bytes: 1GiB\nno_precompiled_headers: true\n", 1 << 30, true},
		"environment": {given{}, []string{"GAVEL_WORKER_COMPILE_CACHE_BYTES=2MiB", "GAVEL_WORKER_NO_PRECOMPILED_HEADERS=1"}, "compile_cache_bytes: 1GiB\n", 2 << 20, true},
		"flag":        {given{"compile_cache_bytes": "3KiB", "no_precompiled_headers": "true"}, []string{"GAVEL_WORKER_COMPILE_CACHE_BYTES=2MiB"}, "", 3 << 10, true},
		"no cache":    {given{"compile_cache_bytes": "0"}, nil, "", -1, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, configName), []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := resolve(common{StateDir: dir}, tc.flags, tc.environ)
			if err != nil || s.compileCache != tc.cache || s.noHeaders != tc.none {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
}

func TestReferencePageListsEverySetting(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/worker.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range workerSettings.Settings {
		row := "| `" + s.Key + "` | "
		if s.NoFlag {
			row += "– | – | "
		} else {
			row += "`" + s.Flag() + "` | `" + s.Env + "` | "
		}
		if s.Default != "" && s.Kind != config.Switch {
			row += "`" + s.Default + "` | "
		}
		if !strings.Contains(string(page), row) {
			t.Errorf("the page lacks the row %s", row)
		}
	}
}
