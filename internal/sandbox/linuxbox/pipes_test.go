package linuxbox

import (
	"os"
	"strings"
	"testing"
)

// Pipes are made ahead and closed late, but each is for one run alone: what a
// program does to its own (to write without blocking, a larger buffer) must not
// be found by the next.
func TestAPipeThatAProgramChangedIsNotTheNextOnes(t *testing.T) {
	needBoxes(t)
	p := open(t, Config{})
	defer p.Close()
	b, err := p.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	const show, nonBlocking, plain = "cat /proc/self/fdinfo/1 /proc/self/fdinfo/2", "flags:\t04001\n", "flags:\t01\n"
	for _, run := range []struct{ script, want string }{
		{show, plain},
		{"dd if=/dev/null oflag=nonblock 2>/dev/null; dd if=/dev/null oflag=nonblock >&2 2>/dev/null; " + show, nonBlocking},
		{show, plain},
		{show, plain},
		{show, plain},
		{show, plain},
	} {
		var out strings.Builder
		spec := shell(run.script)
		spec.Stdout = &out
		if _, err := b.Run(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		if strings.Count(out.String(), run.want) != 2 {
			t.Errorf("%s: %q, want %q twice", run.script, out.String(), run.want)
		}
	}
}

// A box in use holds a few descriptors more than a new one, however many runs
// it had, and a closed one none.
func TestDescriptorsOfPipesDoNotAddUp(t *testing.T) {
	needBoxes(t)
	p := open(t, Config{})
	defer p.Close()
	before := openDescriptors(t)
	b, err := p.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var after []int
	for i := range 20 {
		script := "echo out; echo err >&2"
		if i%5 == 4 {
			script = "while :; do echo too much; done"
		}
		spec := shell(script)
		spec.Limits.StdoutBytes = 1 << 10
		if _, err := b.Run(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		after = append(after, openDescriptors(t))
	}
	if after[9] != after[19] {
		t.Errorf("descriptors after each run: %d", after)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if got := openDescriptors(t); got != before {
		t.Errorf("%d descriptors before the box was opened, %d after it was closed", before, got)
	}
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
