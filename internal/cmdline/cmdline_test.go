package cmdline_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/internal/cmdline"
)

type grammar struct {
	Show struct {
		showCmd
	} `cmd:"" help:"Show one."`
}

type showCmd struct {
	ID    int    `arg:"" optional:""`
	Count int    `short:"n"`
	Rule  string `enum:"first,all," default:""`

	For time.Duration
}

var errShown = errors.New("shown")

// Run implements the command.
func (*showCmd) Run() error { return errShown }

func TestTheFrame(t *testing.T) {
	for _, c := range []struct {
		args      string
		code      int
		out, want string // on standard output, and on standard error or in the error
	}{
		{"", 2, "", "Usage: prog"},
		{"--help", 0, "Usage: prog", ""},
		{"show --help", 0, "Usage: prog show", ""},
		{"show 1", 9, "", "shown"},
		{"sho", 2, "", `did you mean "show"`},
		{"show -n -1", 2, "", "--count cannot be negative, and -1 is (prog show --help shows the usage)"},
		{"show a\xff", 2, "", `the argument "a\xff" is not UTF-8 (give it in UTF-8`},
		{"show -1", 2, "", "-1 is no number that anything has: numbers start at 1"},
		{"show --for -2h", 2, "", "--for cannot be negative, and -2h is; write a duration such as 90s"},
		{"show --for 2", 2, "", `--for: "2" is no duration; write one such as 90s`},
		{"show --rule odd", 2, "", `--rule must be one of "first","all" but got "odd"`},
	} {
		var out, stderr bytes.Buffer
		said := ""
		code := cmdline.Program{Name: "prog", Description: "d", Out: &out, Err: &stderr}.Run(&grammar{}, strings.Fields(c.args), func(err error) int {
			if u, ok := errors.AsType[*cmdline.Usage](err); ok {
				said = u.Message + " (" + u.Hint + ")"
				return cmdline.ExitUsage
			}
			if err != nil {
				said = err.Error()
				return 9
			}
			return 0
		})
		if code != c.code || !strings.Contains(out.String(), c.out) || (c.out == "") != (out.Len() == 0) || !strings.Contains(stderr.String()+said, c.want) {
			t.Errorf("%q: exit code %d, want %d\nout: %s\nerr: %s%s\nwant %q and %q", c.args, code, c.code, &out, &stderr, said, c.out, c.want)
		}
	}
}
