package judge_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/verdict"
)

// withSmallHeader is C as language "x" with a header compiled ahead that takes
// no time. The pairs are replacements in its section.
func withSmallHeader(t *testing.T, pairs ...string) *language.Registry {
	t.Helper()
	return languageLike(t, "\nrun:\n", strings.NewReplacer(pairs...).Replace(`
precompile:
  header: string.h
  file: string.h.gch
  list: [-M, -x, c, -include, string.h, /dev/null]
  tools: [-print-prog-name=cc1]
  make: [-c, -x, c-header, "{header}"]
  use: [-I, "{precompiled}", -Winvalid-pch, "{sources}"]
  redo: [In file included from, "[-Winvalid-pch]"]
run:
`))
}

const smallHeader = "headers/x/include/string.h.gch"

// logText is a log to look into.
type logText struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	wrote chan struct{} // if set, told of every line
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wrote != nil {
		select {
		case l.wrote <- struct{}{}:
		default:
		}
	}
	return l.buf.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logText) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// judgeSmall judges a C program that begins with the small header.
func judgeSmall(t *testing.T, e *judge.Engine) *judge.Report {
	t.Helper()
	source := "#include <string.h>\n#include <stdio.h>\nint main(void){printf(\"%d\\n\",(int)strlen(\"abc\"));return 0;}\n"
	r, err := e.Judge(t.Context(), newTask(newPackage(t, "", "3"), "x", source), quiet)
	if err != nil || r.Verdict != verdict.AC {
		t.Fatalf("%+v, %v", r, err)
	}
	return r
}

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return fi.Sys().(*syscall.Stat_t).Ino
}

// rewrite changes a file whatever its mode says.
func rewrite(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, change(text), 0o600), os.Chmod(path, 0o444)); err != nil {
		t.Fatal(err)
	}
}

func flipMiddle(b []byte) []byte { b[len(b)/2] ^= 0x40; return b }

func TestACompiledHeaderOutlivesItsEngineUntilSomethingChanges(t *testing.T) {
	p := realProvider(t)
	dir := filepath.Join(t.TempDir(), "scratch")
	manifest := filepath.Join(dir, "headers/x/manifest.json")
	manifestWith := func(change func(m map[string]any)) func(*testing.T) {
		return func(t *testing.T) {
			rewrite(t, manifest, func(text []byte) []byte {
				var m map[string]any
				if err := json.Unmarshal(text, &m); err != nil {
					t.Fatal(err)
				}
				change(m)
				text, err := json.Marshal(m)
				if err != nil {
					t.Fatal(err)
				}
				return text
			})
		}
	}
	part := func(m map[string]any, suffix string) map[string]any {
		for _, p := range m["parts"].([]any) {
			if p := p.(map[string]any); strings.HasSuffix(p["path"].(string), suffix) {
				return p
			}
		}
		t.Fatalf("no part %s in %v", suffix, m["parts"])
		return nil
	}
	var kept uint64
	tests := []struct {
		name  string
		alter func(t *testing.T)
		anew  bool
		says  string
	}{
		{"nothing there", func(*testing.T) {}, true, ""},
		{"nothing changed", func(*testing.T) {}, false, ""},
		{"damaged", func(t *testing.T) { rewrite(t, filepath.Join(dir, smallHeader), flipMiddle) }, true, "not what was made"},
		{"cut", func(t *testing.T) {
			rewrite(t, filepath.Join(dir, smallHeader), func(b []byte) []byte { return b[:len(b)/2] })
		}, true, "not what was made"},
		{"unchanged again", func(*testing.T) {}, false, ""},
		{"another compiler made it", manifestWith(func(m map[string]any) { m["version"] = "gcc 1.0" }), true, `made by \"gcc 1.0\", now there is`},
		{"compiled by another program", manifestWith(func(m map[string]any) { part(m, "/cc1")["sha256"] = "00" }), true, "/cc1 has changed"},
		{"another header", manifestWith(func(m map[string]any) { part(m, "/string.h")["sha256"] = "00" }), true, "/string.h has changed"},
		{"a header that is gone", manifestWith(func(m map[string]any) { part(m, "/string.h")["path"] = "/usr/include/gone/string.h" }), true, ""},
		{"other flags", manifestWith(func(m map[string]any) { m["command"] = []string{"gcc"} }), true, "another command"},
		{"another environment", manifestWith(func(m map[string]any) { m["env"] = []string{"A=b"} }), true, "another environment"},
		{"junk for a manifest", func(t *testing.T) { rewrite(t, manifest, func([]byte) []byte { return []byte("{") }) }, true, "manifest: "},
		{"interrupted before its manifest", func(t *testing.T) {
			if err := os.Remove(manifest); err != nil {
				t.Fatal(err)
			}
		}, true, ""},
		{"a file in its place", func(t *testing.T) {
			if err := errors.Join(os.RemoveAll(filepath.Dir(manifest)), os.WriteFile(filepath.Dir(manifest), nil, 0o644)); err != nil {
				t.Fatal(err)
			}
		}, true, ""},
		{"unchanged at last", func(*testing.T) {}, false, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.alter(t)
			var log logText
			e := newEngineWith(t, judge.Config{Provider: p, Slots: 1, ScratchDir: dir, Languages: withSmallHeader(t), Logger: log.logger()})
			if err := e.Precompile(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
			now := inode(t, filepath.Join(dir, smallHeader))
			if anew := strings.Contains(log.String(), "kept=false"); anew != tt.anew || !tt.anew && now != kept {
				t.Errorf("made anew: %t, want %t; %s", anew, tt.anew, &log)
			}
			if !strings.Contains(log.String(), tt.says) {
				t.Errorf("the log does not say %q: %s", tt.says, &log)
			}
			kept = now
			if r := judgeSmall(t, e); !r.Compile.Precompiled || r.Compile.Log != "" {
				t.Errorf("not used: %+v", r.Compile)
			}
		})
	}
}

func TestAHeaderDamagedUnderARunningEngineIsNotUsed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "scratch")
	var log logText
	e := newEngineWith(t, judge.Config{
		Provider: realProvider(t), Slots: 1, ScratchDir: dir, Languages: withSmallHeader(t), CompileCacheBytes: -1, Logger: log.logger(),
	})
	for range 2 {
		if err := e.Precompile(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		if r := judgeSmall(t, e); !r.Compile.Precompiled {
			t.Fatalf("not used: %+v", r.Compile)
		}
		rewrite(t, filepath.Join(dir, smallHeader), flipMiddle)
		if r := judgeSmall(t, e); r.Compile.Precompiled || r.Compile.Header != "being_made" {
			t.Fatalf("a damaged header was used, or nobody says that another is made: %+v", r.Compile)
		}
	}
	if err := e.Precompile(t.Context(), "x"); err != nil { // waits for what is made in the background
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "not what was made") {
		t.Errorf("the log does not say why: %s", &log)
	}
	if r := judgeSmall(t, e); !r.Compile.Precompiled {
		t.Errorf("not used: %+v", r.Compile)
	}
}

// TestSelfTestHasHeadersMade: those of default languages at once, the others
// when a source could use them.
func TestSelfTestHasHeadersMade(t *testing.T) {
	for name, tt := range map[string]struct {
		defaults string
		test     bool
		before   int // made when the first source comes
		after    int
	}{
		"default language": {"[c]", true, 1, 1},
		"another language": {"[]", true, 0, 1},
		"without":          {"[c]", false, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			log := logText{wrote: make(chan struct{}, 1)}
			e := newEngineWith(t, judge.Config{
				Provider: realProvider(t), Slots: 1, CompileCacheBytes: -1, Logger: log.logger(),
				Languages: withSmallHeader(t, "\nrun:\n", "\ndefault_for: "+tt.defaults+"\nrun:\n"),
			})
			if tt.test {
				offers, err := e.SelfTest(t.Context())
				if err != nil || !offers[0].OK {
					t.Fatalf("%+v, %v", offers, err)
				}
			}
			made := func() int { return strings.Count(log.String(), "kept=false") }
			soon := func(want int) {
				t.Helper()
				for made() < want {
					select {
					case <-log.wrote:
					case <-time.After(time.Minute):
						t.Fatalf("made %d, want %d: %s", made(), want, &log)
					}
				}
				if n := made(); n != want {
					t.Errorf("made %d times, want %d", n, want)
				}
				if want > 0 { // made, and now it is ready
					if err := e.Precompile(t.Context(), "x"); err != nil {
						t.Error(err)
					}
				}
			}
			soon(tt.before)
			if got := judgeSmall(t, e).Compile.Precompiled; got != (tt.before > 0) {
				t.Errorf("used by the first source: %t", got)
			}
			soon(tt.after)
			if got := judgeSmall(t, e).Compile.Precompiled; got != (tt.after > 0) {
				t.Errorf("used at last: %t", got)
			}
		})
	}
}

func TestPrecompileRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	e := newEngine(t, &fakeProvider{}, 1)
	if err := e.Precompile(t.Context(), "c++98"); err == nil || !strings.Contains(err.Error(), "c++98") {
		t.Errorf("an unknown language: %v", err)
	}
}

func TestHeadersThatCannotBeUsedAreLeftOut(t *testing.T) {
	p := realProvider(t)
	for name, tt := range map[string]struct {
		pairs []string
		says  string
	}{
		"not found by the compiler": {[]string{`[-I, "{precompiled}"`, `[-I, /nowhere, -D, "{precompiled}"`}, ""},
		"no such header":            {[]string{"header: string.h", "header: strnig.h"}, "no file called strnig.h"},
		"no rule":                   {[]string{"list: [-M,", "list: [-E,"}, "make rule"},
		"two of that name":          {[]string{"-include, string.h", "-include, stdio.h", "header: string.h", "header: stdio.h"}, "are called stdio.h"},
		"list fails":                {[]string{"-include, string.h", "-include, gone.h"}, "gone.h"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "scratch")
			e := newEngineWith(t, judge.Config{Provider: p, Slots: 1, ScratchDir: dir, Languages: withSmallHeader(t, tt.pairs...)})
			err := e.Precompile(t.Context(), "x")
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v does not say %q", err, tt.says)
			}
			if r := judgeSmall(t, e); r.Compile.Precompiled || r.Compile.Header != "failed" && !strings.Contains(strings.Join(tt.pairs, " "), "header: ") { // then the source has no use for it
				t.Errorf("used, or nobody says that it failed: %+v", r.Compile)
			}
			if left, err := os.ReadDir(filepath.Join(dir, "headers")); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

// TestASubmissionCannotPoisonWhatIsCompiled has sources that are shell scripts
// which their compiler runs: no real compiler can be made to do as much. What
// they manage to do is what their program prints.
func TestASubmissionCannotPoisonWhatIsCompiled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "scratch")
	text, err := os.ReadFile("../language/data/c.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n  program: prog")
	before, after, _ := strings.Cut(rest, "\nrun:\n")
	_, after, _ = strings.Cut(after, "\nversion:\n")
	file := `id: x
name: shell
package_codes: [x]
extensions: [x]
source: main.c
compile:
  argv: [/usr/bin/sh, "{sources}", "{program}"]
  program: prog` + before + `
precompile:
  header: string.h
  file: string.h.gch
  list: [-c, 'echo "x: /usr/include/string.h" > "$0"']
  make: [-c, 'echo compiled > "$1"', "{header}"]
  use: [-c, 'if grep -q "int main" "$0"; then echo > "$2"; else . "$0"; fi', "{sources}", "{precompiled}"]
run:
  argv: [/usr/bin/sh, "{program}"]
  processes: 4
version:
` + after
	languages, err := language.Load(fstest.MapFS{"x.yaml": {Data: []byte(file)}})
	if err != nil {
		t.Fatal(err)
	}
	e := newEngineWith(t, judge.Config{Provider: realProvider(t), Slots: 1, ScratchDir: dir, Languages: languages})
	if err := e.Precompile(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, smallHeader)
	made := inode(t, path)
	script := `#include <string.h>
d="$1"; p="$2"
test "$(cat "$d/string.h.gch")" = compiled && echo 'echo sees it' > "$p"
did() { echo "echo $1" >> "$p"; }
try() { what="$1"; shift; if "$@" 2>/dev/null; then did "$what"; fi; }
exec 2>/dev/null
(echo poison > "$d/string.h.gch") && did overwrote
(echo poison >> "$d/string.h.gch") && did appended
(echo '#error' > "$d/string.h") && did added
try removed rm -f "$d/string.h.gch"
try moved mv "$d/string.h.gch" "$d/x"
try replaced ln -sf /w/prog "$d/string.h.gch"
try linked ln "$d/string.h.gch" /w/x
try opened chmod 666 "$d/string.h.gch"
try owned chown 1000 "$d/string.h.gch"
try touched touch "$d/string.h.gch"
try cut truncate -s 1 "$d/string.h.gch"
try remounted mount -o remount,rw "$d"
try unmounted umount "$d"
try bound mount --bind /w "$d"
try made mkdir "$d/dir"
(echo x > /box/x) && did box
for f in /proc/self/fd/*; do (echo x >> "$f"/../string.h.gch) && did fd; done
for s in ` + dir + ` /compiled /headers; do test -e "$s" && did "found $s"; done
exit 0
`
	pkg := newPackage(t, "", "sees it")
	r, err := e.Judge(t.Context(), newTask(pkg, "x", script), quiet)
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict != verdict.AC || !r.Compile.Precompiled {
		t.Errorf("verdict %s: %+v %+v", r.Verdict, r.Compile, r.Tests)
	}
	content, err := os.ReadFile(path)
	if err != nil || string(content) != "compiled\n" || inode(t, path) != made {
		t.Errorf("header is %q now, %v", content, err)
	}
	// And what runs sees neither.
	run := "#include <string.h>\ncat > \"$2\" <<'E'\nls -d /box/* /compiled /headers " + dir + " 2>/dev/null\n(echo x >> /box/prog) 2>/dev/null && echo wrote\ntrue\nE\n"
	r, err = e.Judge(t.Context(), newTask(newPackage(t, "", "/box/prog", "", "/box/prog"), "x", run), quiet)
	if err != nil || r.Verdict != verdict.AC || !r.Compile.Precompiled {
		t.Errorf("%+v, %v", r, err)
	}
	kept, err := filepath.Glob(filepath.Join(dir, "compiled/*"))
	if err != nil || len(kept) != 2 {
		t.Errorf("%v, %v", kept, err)
	}
}
