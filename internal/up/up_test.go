package up_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/pgserver/pgbin"
	"github.com/gavel-oj/gavel/internal/testkit"
	"github.com/gavel-oj/gavel/internal/up"
)

// steps notes what it is told.
type steps struct{ said []string }

func (s *steps) Step(text string)                { s.said = append(s.said, text) }
func (*steps) Progress(int, int, map[string]int) {}
func (*steps) Judged([]up.Sample)                {}
func (s *steps) Running(_, _, _ string)          { s.said = append(s.said, "running") }

// When a part fails at the start, the parts before it are stopped again, the
// database last: nothing stays behind that the next start would stumble over.
func TestWhenAPartFailsTheOthersAreStopped(t *testing.T) {
	if _, err := pgbin.Find(t.Context(), pgbin.Options{}); err != nil {
		testkit.Missing(t, testkit.PG, "%v", err)
	}
	dir, err := os.MkdirTemp("", "gavel-up-") // the database's user must be able to walk there
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	for _, tt := range []struct{ name, worker, listen, text, last string }{
		{"the address cannot be", "/bin/false", "nonsense", "cannot listen", "starting the arbiter"},
		{"no worker program", filepath.Join(dir, "none"), "127.0.0.1:0", "is not there", "starting a worker"},
		{"the worker refuses to start", "/bin/false", "127.0.0.1:0", "the worker cannot start", "waiting for the worker's self-test"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			view := &steps{}
			err := up.Run(t.Context(), up.Config{DataDir: data, Listen: tt.listen, Worker: tt.worker, Logger: slog.New(slog.DiscardHandler), Environ: os.Environ()}, view)
			e, ok := errors.AsType[*apperr.Error](err)
			if !ok || !strings.Contains(e.Error(), tt.text) || e.Hint == "" {
				t.Errorf("error %v", err)
			}
			if n := len(view.said); n == 0 || view.said[n-1] != tt.last || slices.Contains(view.said, "running") {
				t.Errorf("steps %q", view.said)
			}
			// A server that runs has this file; the next case starts on the same data.
			left, err := filepath.Glob(filepath.Join(data, "postgres", "*", "postmaster.pid"))
			if more, _ := filepath.Glob(filepath.Join(data, "postgres", "postmaster.pid")); err != nil || len(left)+len(more) > 0 {
				t.Errorf("PostgreSQL was left running: %q %q, %v", left, more, err)
			}
		})
	}
}

func TestADataDirectoryThatCannotBeMadeIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := up.Run(t.Context(), up.Config{DataDir: filepath.Join(file, "data"), Logger: slog.New(slog.DiscardHandler)}, &steps{})
	if e, ok := errors.AsType[*apperr.Error](err); !ok || e.Code != apperr.Forbidden || !strings.Contains(e.Hint, "--data-dir") {
		t.Errorf("error %v", err)
	}
}
