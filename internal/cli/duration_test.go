package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/gavel-oj/gavel/internal/cli"
)

type everyCommand struct {
	cli.Commands

	EdgeWorker cli.EdgeWorkerCmd `cmd:""`
}

// Every flag that takes a duration says of one that cannot be what is wrong,
// what can be and how to write it, before anything else happens.
func TestDurationsThatCannotBe(t *testing.T) {
	source := filepath.Join(t.TempDir(), "a.c")
	if err := os.WriteFile(source, []byte("int main(void) { return 0; }"), 0o600); err != nil {
		t.Fatal(err)
	}
	// The rest of the command line; zero says that 0s is a duration of it.
	rest := map[string]struct {
		args []string
		zero bool
	}{
		"gavel worker invite --valid": {},
		"gavel worker drain --for":    {args: []string{"w"}},
		"gavel worker pause --for":    {args: []string{"w"}},
		"gavel webhook rotate --keep": {args: []string{"ops"}, zero: true},
		"gavel run --time":            {args: []string{source}},
		"gavel fleet stage --since":   {args: []string{"--database-url", "postgres://nowhere.invalid/x"}},
		"gavel edge-worker --poll":    {args: []string{"--database-url", "postgres://nowhere.invalid/x", "--packages-dir", "/"}},
		"gavel edge-worker --grace":   {args: []string{"--database-url", "postgres://nowhere.invalid/x", "--packages-dir", "/"}, zero: true},
	}
	parser, err := kong.New(&everyCommand{}, kong.Name("gavel"), kong.Vars{"default_url": cli.DefaultURL})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, leaf := range parser.Model.Leaves(true) {
		for _, group := range leaf.AllFlags(true) {
			for _, f := range group {
				if d := reflect.TypeFor[time.Duration](); f.Target.Type() != d && f.Target.Type() != reflect.PointerTo(d) {
					continue
				}
				words, _, _ := strings.Cut(leaf.FullPath(), " <")
				words, _, _ = strings.Cut(words, " [")
				c, known := rest[words+" --"+f.Name]
				if !known {
					t.Errorf("%s --%s: the test does not know it", words, f.Name)
					continue
				}
				found++
				for _, bad := range [][2]string{
					{"-2h", "--" + f.Name},
					{"0s", " must lie between "},
					{"9000h", " must lie between "},
					{"2", "is no duration"},
					{"99999999h", "is no duration"},
					{"2 days", "is no duration"},
					{"", "is no duration"},
				} {
					if bad[0] == "0s" && c.zero {
						continue
					}
					for _, given := range [][]string{{"--" + f.Name + "=" + bad[0]}, {"--" + f.Name, bad[0]}} {
						args := append(append(strings.Fields(words)[1:], c.args...), given...)
						var out, stderr bytes.Buffer
						grammar := &everyCommand{}
						code := cli.Run(t.Context(), grammar, &grammar.Globals, args, cli.Streams{
							In: strings.NewReader(""), Out: &out, Err: &stderr, Getenv: func(string) string { return "" },
						})
						if text := stderr.String(); code != cli.ExitUsage || !strings.Contains(text, bad[1]) || !strings.Contains(text, "a duration such as 90s") && !strings.Contains(text, "write one such as 90s") {
							t.Errorf("%q: exit code %d, %s", args, code, text)
						}
					}
				}
			}
		}
	}
	if found != len(rest) {
		t.Errorf("%d flags take durations, the test knows %d", found, len(rest))
	}
}
