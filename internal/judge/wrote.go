package judge

import (
	"errors"
	"io"

	"github.com/gavel-oj/gavel/internal/verdict"
)

// What is kept of what failing tests wrote. A package may have thousands of
// tests, so only the first that fail are kept.
const (
	WroteBytes = 4 << 10 // of each stream of a test
	WroteTests = 4
)

// Wrote is the beginning of what a program wrote in a test that it failed. It
// can hold the test's input, so it is for those who may see that.
type Wrote struct {
	Stdout, Stderr       []byte // at most WroteBytes each
	StdoutCut, StderrCut bool   // there was more
}

// stderrOf takes in a run's standard error: it looks for refused allocations and
// keeps the beginning.
type stderrOf struct {
	refused refusalWatch
	kept    keeper
}

func newStderr() *stderrOf { return &stderrOf{kept: keeper{limit: WroteBytes}} }

func (s *stderrOf) Write(p []byte) (int, error) {
	_, _ = s.refused.Write(p)
	return s.kept.Write(p)
}

// keepWrote puts the beginning of what was written into the test of a run that
// is not AC.
func (r *ran) keepWrote() error {
	if r.test.Verdict == verdict.AC || r.stderr == nil {
		return nil
	}
	w := &Wrote{Stderr: r.stderr.kept.bytes(), StderrCut: r.stderr.kept.cut}
	if r.output != nil {
		head := make([]byte, WroteBytes+1)
		n, err := r.output.ReadAt(head, 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		w.StdoutCut = n > WroteBytes
		w.Stdout = head[:min(n, WroteBytes)]
	}
	if len(w.Stdout)+len(w.Stderr) > 0 {
		r.test.Wrote = w
	}
	return nil
}

// boundWrote drops what was written in the last of too many failing tests.
func boundWrote(tests []Test) {
	kept, last := 0, 0
	for i := range tests {
		if tests[i].Wrote != nil {
			kept, last = kept+1, i
		}
	}
	if kept > WroteTests {
		tests[last].Wrote = nil
	}
}
