package icpc

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/gavel-oj/gavel/internal/apperr"
)

// allocatedBytes is what f allocates in all.
func allocatedBytes(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func repeatKeys(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

func deeper(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

// Each of these took the parser seconds or gigabytes.
func TestYAMLThatCostsTooMuchIsRefusedAtItsLine(t *testing.T) {
	const mostBytes = 64 << 20
	for name, c := range map[string]struct{ yaml, want string }{
		"flow lists":       {strings.Repeat("[", 65_000), "problem.yaml:1"},
		"flow mappings":    {strings.Repeat("{a: ", 16_000), "problem.yaml:1"},
		"lists in lists":   {strings.Repeat("- ", 32_000), "problem.yaml:1"},
		"anchors":          {strings.Repeat("&a ", 20_000), "problem.yaml:1"},
		"aliases":          {"a: [" + strings.Repeat("*b,", 20_000) + "]", "problem.yaml:1"},
		"tags":             {strings.Repeat("!a ", 20_000), "problem.yaml:1"},
		"keys of keys":     {strings.Repeat("? ", 30_000), "problem.yaml:1"},
		"many keys":        {"name: x\n" + repeatKeys(6500, "k%d: 1\n"), "problem.yaml:2001"},
		"many flow keys":   {"name: {" + repeatKeys(6000, "k%d: 1,") + "}", "problem.yaml:1"},
		"keys in one line": {strings.Repeat("a: ", 20_000), "problem.yaml:1"},
		"many elements":    {"a: [" + strings.Repeat("b,", 30_000) + "]", "problem.yaml:1"},
		"deep by columns":  {deeper(300), "problem.yaml:101"},
		"in quotes, after": {`a: "[[["` + "\nb: " + strings.Repeat("[", 5000), "problem.yaml:2"},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			took := allocatedBytes(func() {
				_, err = Import(t.Context(), pkg(map[string]string{"problem.yaml": c.yaml}), Options{Fallback: "x"})
			})
			e, ok := errors.AsType[*apperr.Error](err)
			if !ok || e.Code != apperr.Invalid || e.Hint == "" || !strings.HasPrefix(e.Error(), c.want+":") {
				t.Errorf("error %v, want a refusal at %s", err, c.want)
			}
			if took > mostBytes {
				t.Errorf("%d MiB allocated, want at most %d", took>>20, uint64(mostBytes)>>20)
			}
		})
	}
}

func TestTheLargestYAMLThatIsReadTakesLittleMemory(t *testing.T) {
	const mostBytes = 64 << 20
	for name, yaml := range map[string]string{
		"keys":    repeatKeys(maxYAMLKeys-10, "k%d: 1\n") + "name: x\n",
		"nesting": "name: x\nkeywords:\n" + strings.Repeat("- "+strings.Repeat("[", 90)+strings.Repeat("]", 90)+"\n", 100),
		"lists":   "name: x\nkeywords:\n" + strings.Repeat(strings.Repeat("- ", 90)+"a\n", 200),
		"marks":   "name: x\nkeywords: " + strings.Repeat("&a ", 1) + "b\n",
		"text":    "name: x\nkeywords: '" + strings.Repeat("[{- &*!?: ", 5000) + "' # " + strings.Repeat("[", 200) + "\n",
		"literal": "name: x\nkeywords: |\n" + strings.Repeat("  [ [ - - - ? &a: b: c\n", 2000),
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			took := allocatedBytes(func() {
				_, err = Import(t.Context(), pkg(map[string]string{"problem.yaml": yaml}), Options{Fallback: "x"})
			})
			if err != nil {
				t.Error(err)
			}
			if took > mostBytes {
				t.Errorf("%d MiB allocated, want at most %d", took>>20, uint64(mostBytes)>>20)
			}
		})
	}
}

func TestWaitingForAPlaceToParseEndsWithTheRequest(t *testing.T) {
	for range cap(parsing) {
		done, err := admitParse(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer done()
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the client went away")
	context.AfterFunc(t.Context(), func() { cancel(nil) })
	result := make(chan error, 1)
	go func() {
		_, err := parseYAML(ctx, "problem.yaml", []byte("name: x"))
		result <- err
	}()
	cancel(gone)
	if err := <-result; !errors.Is(err, gone) {
		t.Errorf("error %v, want the cause of the end", err)
	}
}

func TestTextThatCannotBeKeptIsRefusedAtItsLine(t *testing.T) {
	for name, c := range map[string]struct {
		file, text, want, hint string
	}{
		"NUL byte":              {"problem.yaml", "name: x\nlicense: a\x00b\n", "problem.yaml:2", "remove"},
		"escaped NUL":           {"problem.yaml", "license: x\nname: \"a\\0b\"\n", "problem.yaml:2", `\0`},
		"escaped NUL, hex":      {"problem.yaml", "license: x\nname: \"a\\x00b\"\n", "problem.yaml:2", `\0`},
		"escaped NUL in a key":  {"problem.yaml", "license: x\nname: {\"e\\0n\": b}\n", "problem.yaml:2", `\0`},
		"Latin-1":               {"problem.yaml", "license: x\nname: Caf\xe9\n", "problem.yaml:2", "iconv"},
		"Latin-1 in a comment":  {"problem.yaml", "name: x\n# \xe9\n", "problem.yaml:2", "iconv"},
		"NUL in a group":        {"data/secret/test_group.yaml", "output_validator_args: [\"a\\0\"]\n", "data/secret/test_group.yaml:1", `\0`},
		"Latin-1 in a group":    {"data/secret/test_group.yaml", "\nargs: [\xe9]\n", "data/secret/test_group.yaml:2", "iconv"},
		"Latin-1 in the ini":    {"domjudge-problem.ini", "color=x\nname=\xe9\n", "domjudge-problem.ini:2", "iconv"},
		"NUL in the ini":        {"domjudge-problem.ini", "name=a\x00b\n", "domjudge-problem.ini:1", "remove"},
		"NUL in the rules":      {"submissions/submissions.yaml", "\"a\\0*\": {language: c}\n", "submissions/submissions.yaml:1", `\0`},
		"NUL in unknown's name": {"problem.yaml", "name: x\n\"k\\0\": 1\n", "problem.yaml:2", `\0`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Import(t.Context(), pkg(map[string]string{c.file: c.text, "submissions/accepted/a.c": "int main;"}), Options{Fallback: "x"})
			e, ok := errors.AsType[*apperr.Error](err)
			if !ok || e.Code != apperr.Invalid || !strings.Contains(e.Hint, c.hint) || !strings.HasPrefix(e.Error(), c.want+":") {
				t.Errorf("error %v, want a refusal at %s with a hint of %q", err, c.want, c.hint)
			}
		})
	}
}
