package config

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var set = Set{
	Page: "docs/x.md", Prefix: "GAVEL_", Others: []string{"GAVEL_TOKEN"}, Foreign: []string{"GAVEL_OTHER_"},
	Settings: []Setting{
		{Key: "listen", Env: "GAVEL_LISTEN", Default: "127.0.0.1:1", Says: "address"},
		{Key: "slots", Env: "GAVEL_SLOTS", Note: "one per core", Kind: Number, Min: 1, Max: 8},
		{Key: "room", Env: "GAVEL_ROOM", Default: "4GiB", Kind: Size, Min: 1},
		{Key: "cache", Env: "GAVEL_CACHE", Kind: Size},
		{Key: "grace", Env: "GAVEL_GRACE", Default: "0s", Kind: Duration},
		{Key: "quiet", Env: "GAVEL_QUIET", Default: "false", Kind: Switch},
		{Key: "log", Env: "GAVEL_LOG", Default: "auto", Choices: []string{"auto", "json"}},
		{Key: "dirs", Kind: List, NoFlag: true},
		{Key: "database_url", Env: "GAVEL_DATABASE_URL", Secret: true, Credential: "gavel-database-url"},
	},
}

func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "g.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func resolve(t *testing.T, src Sources) *Values {
	t.Helper()
	v, err := set.Resolve(src)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestFlagBeatsVariableBeatsFileBeatsDefault(t *testing.T) {
	t.Parallel()
	name := write(t, "# comment\nlisten: file:1\nslots: 2\nroom: 1 MiB\ngrace: 10s\nquiet: yes\n")
	v := resolve(t, Sources{
		File: name, Environ: []string{"GAVEL_SLOTS=3", "GAVEL_ROOM=2MiB", "GAVEL_GRACE=", "GAVEL_QUIET=true"},
		Flags: map[string]string{"room": "3MiB", "listen": ""},
	})
	type row struct{ Key, Text, Origin string }
	var got []row
	for _, x := range v.All()[:6] {
		got = append(got, row{x.Key, x.Text, x.Origin})
	}
	want := []row{
		{"listen", "file:1", name + ":2: listen"},
		{"slots", "3", "GAVEL_SLOTS"},
		{"room", "3MiB", "--room"},
		{"cache", "", "default"},
		{"grace", "10s", name + ":5: grace"},
		{"quiet", "true", "GAVEL_QUIET"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if v.Number("slots") != 3 || v.Size("room") != 3<<20 || v.Size("cache") != 0 || v.Duration("grace") != 10*time.Second || !v.Switch("quiet") {
		t.Errorf("values %+v", v)
	}
	if v.Given("cache") || !v.Given("slots") {
		t.Error("what was given is told wrongly")
	}
	if none := resolve(t, Sources{}); none.Text("listen") != "127.0.0.1:1" || none.All()[1].Shown() != "(one per core)" {
		t.Errorf("defaults %+v", none)
	}
}

func TestMistakesNameTheirPlace(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		src        Sources
		text       string
		want, hint string
	}{
		"unknown key":            {text: "listen: a\nslot: 3\n", want: `g.yaml:2: there is no setting "slot", in "slot: 3"; was slots meant?`, hint: "docs/x.md"},
		"unknown key of one":     {text: "slot: 3\n", want: `g.yaml:1: there is no setting "slot"`, hint: "docs/x.md"},
		"not a number":           {text: "\nslots: many\n", want: "g.yaml:2: slots is not a number", hint: "1 to 8"},
		"out of bounds":          {src: Sources{Flags: map[string]string{"slots": "9"}}, want: "--slots is not a number that can be", hint: "1 to 8"},
		"no size":                {src: Sources{Environ: []string{"GAVEL_ROOM=4GB"}}, want: "GAVEL_ROOM is not a size", hint: "GiB"},
		"a size below the least": {src: Sources{Environ: []string{"GAVEL_ROOM=0"}}, want: "GAVEL_ROOM is not a size", hint: "GiB"},
		"no duration":            {text: "grace: 10\n", want: "g.yaml:1: grace is not a duration", hint: "30s"},
		"below zero":             {text: "grace: -1s\n", want: "grace is not a duration", hint: "30s"},
		"no switch":              {src: Sources{Flags: map[string]string{"quiet": "perhaps"}}, want: "--quiet is not a yes or no", hint: "true"},
		"no choice":              {text: "log: xml\n", want: "log is not one of the choices", hint: "auto, json"},
		"a list for a value":     {text: "listen: [a]\n", want: `g.yaml:1: "listen: [a]" is a list`, hint: "one value"},
		"a value for a list":     {text: "dirs: /a\n", want: `"dirs: /a" is no list`, hint: "[/a]"},
		"a map for a value":      {text: "listen:\n  host: a\n", want: "g.yaml:1", hint: "docs/x.md"},
		"no map at all":          {text: "- a\n", want: `"- a" is not a list of KEY: VALUE`, hint: "docs/x.md"},
		"a word":                 {text: "hello\n", want: `"hello" is not a list of KEY: VALUE`, hint: "docs/x.md"},
		"twice":                  {text: "slots: 1\nslots: 2\n", want: "slots", hint: ""},
		"no YAML":                {text: "a: [\n", want: "g.yaml", hint: "docs/x.md"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.text != "" {
				tt.src.File = write(t, tt.text)
			}
			_, err := set.Resolve(tt.src)
			e, ok := errors.AsType[*Error](err)
			if !ok || !strings.Contains(e.Message, tt.want) || !strings.Contains(e.Hint, tt.hint) {
				t.Errorf("%#v; want %q, hint %q", err, tt.want, tt.hint)
			}
		})
	}
	if _, err := set.Resolve(Sources{File: "/nowhere/g.yaml", Must: true}); err == nil {
		t.Error("a file that must exist and does not was taken")
	}
	for _, fine := range []string{"", "\n# nothing\n", "---\n", "listen:\n", "null\n"} {
		if v, err := set.Resolve(Sources{File: write(t, fine)}); err != nil || v.Given("listen") {
			t.Errorf("%q: %v", fine, err)
		}
	}
}

func TestUnknownVariablesAreWarnings(t *testing.T) {
	t.Parallel()
	v := resolve(t, Sources{Environ: []string{"GAVEL_SLOT=1", "GAVEL_TOKEN=x", "GAVEL_OTHER_X=1", "GAVEL_DATABASE_URL_FILE=", "OTHER=1"}})
	if diff := cmp.Diff([]string{"the variable GAVEL_SLOT means nothing; was GAVEL_SLOTS meant?"}, v.Warnings); diff != "" {
		t.Error(diff)
	}
}

func TestSecretsComeFromFilesAndAreNeverShown(t *testing.T) {
	t.Parallel()
	secret := write(t, "postgres://in-a-file\n")
	credentials := t.TempDir()
	if err := os.WriteFile(filepath.Join(credentials, "gavel-database-url"), []byte("postgres://credential"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		src          Sources
		want, origin string
	}{
		"flag beats all":     {Sources{Flags: map[string]string{"database_url": "postgres://flag"}, Environ: []string{"GAVEL_DATABASE_URL_FILE=" + secret}}, "postgres://flag", "--database-url"},
		"flag for a file":    {Sources{Flags: map[string]string{"database_url_file": secret}}, "postgres://in-a-file", "--database-url-file"},
		"variable":           {Sources{Environ: []string{"GAVEL_DATABASE_URL=postgres://env"}}, "postgres://env", "GAVEL_DATABASE_URL"},
		"variable of a file": {Sources{Environ: []string{"GAVEL_DATABASE_URL_FILE=" + secret}, File: write(t, "database_url: postgres://file\n")}, "postgres://in-a-file", "GAVEL_DATABASE_URL_FILE"},
		"key of a file":      {Sources{File: write(t, "database_url_file: "+secret+"\n")}, "postgres://in-a-file", "database_url_file"},
		"key":                {Sources{File: write(t, "database_url: postgres://file\n"), Environ: []string{"CREDENTIALS_DIRECTORY=" + credentials}}, "postgres://file", "database_url"},
		"credential":         {Sources{Environ: []string{"CREDENTIALS_DIRECTORY=" + credentials}}, "postgres://credential", "credential gavel-database-url"},
		"none":               {Sources{Environ: []string{"CREDENTIALS_DIRECTORY=/nowhere"}}, "", "default"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := resolve(t, tt.src)
			got := v.All()[8]
			if got.Text != tt.want || !strings.Contains(got.Origin, tt.origin) || strings.Contains(got.Shown(), "postgres") {
				t.Errorf("%+v, shown %q", got, got.Shown())
			}
		})
	}
	if _, err := set.Resolve(Sources{Environ: []string{"GAVEL_DATABASE_URL_FILE=/nowhere"}}); err == nil || !strings.Contains(err.Error(), "GAVEL_DATABASE_URL_FILE") {
		t.Errorf("a secret's file that is not there: %v", err)
	}
}

func TestListsAreTakenFromTheFile(t *testing.T) {
	t.Parallel()
	v := resolve(t, Sources{File: write(t, "dirs:\n  - /a\n  - \"/b c\"\n")})
	if diff := cmp.Diff([]string{"/a", "/b c"}, v.List("dirs")); diff != "" {
		t.Error(diff)
	}
	if got := v.All()[7].Shown(); got != "[/a, /b c]" {
		t.Errorf("shown as %q", got)
	}
}

func TestSchemaKnowsEveryKeyAndNoOther(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(set.Schema())
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		AdditionalProperties bool
		Properties           map[string]any
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	for _, s := range set.Settings {
		if got.Properties[s.Key] == nil {
			t.Errorf("no %s", s.Key)
		}
	}
	if len(got.Properties) != len(set.Settings)+1 || got.AdditionalProperties {
		t.Errorf("%s", raw)
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"1": 1, "0": 0, "8MiB": 8 << 20, "4 GiB": 4 << 30, "-1": -1, "4GB": -1, "": -1, "9000000TiB": -1} {
		if got, err := parseSize(text); err != nil && want >= 0 || err == nil && got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "listen: a\n", "dirs: [a, b]\n", "a: {b: c}\n", "slots: 3 # x\n", "listen: |\n  a\n", "? a\n: b\n", "*x\n", "listen: !!binary aGk=\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := set.parse("f", text)
		if _, ok := errors.AsType[*Error](err); err != nil && !ok {
			t.Errorf("error %#v", err)
		}
		for key := range got {
			if _, known := set.forKey(key); !known {
				t.Errorf("unknown key %q was taken", key)
			}
		}
	})
}

// A secret may come out of another program's pipe; what never ends is refused.
func TestFilesThatAreNoPlainFiles(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(pipe, []byte("postgres://piped\n"), 0o600) }()
	if got := resolve(t, Sources{Flags: map[string]string{"database_url_file": pipe}}).All()[8]; got.Text != "postgres://piped" {
		t.Errorf("%+v", got)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
	for name, src := range map[string]Sources{
		"a secret":      {Flags: map[string]string{"database_url_file": "/dev/zero"}},
		"settings":      {File: "/dev/zero", Must: true},
		"a short limit": {Flags: map[string]string{"database_url_file": write(t, strings.Repeat("x", maxSecretBytes+1))}},
	} {
		if _, err := set.Resolve(src); err == nil || !strings.Contains(err.Error(), "cannot be read") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
