package worker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/internal/apperr"
)

// next is a process that starts after the former one ended.
func next(t *testing.T, dir string) *State {
	t.Helper()
	s, err := OpenState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.begin(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestSessionSucceedsTheOneThatTheArbiterKnows(t *testing.T) {
	dir := t.TempDir()
	a := next(t, dir)
	if a.previous() != "" {
		t.Errorf("the first session succeeds %q", a.previous())
	}
	if err := a.accepted(); err != nil {
		t.Fatal(err)
	}
	_ = a.Close()
	b := next(t, dir) // ends before the arbiter answers it: it may know a or b
	_ = b.Close()
	c := next(t, dir)
	if d := cmp.Diff([]string{b.session, a.session}, c.earlier); d != "" {
		t.Error(d)
	}
	c.refused()
	if c.previous() != a.session {
		t.Errorf("after a refusal it succeeds %q", c.previous())
	}
	c.refused()
	if c.previous() != b.session {
		t.Error("the candidates do not go round")
	}
	if err := c.accepted(); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if e := next(t, dir); e.previous() != c.session || len(e.earlier) != 1 {
		t.Errorf("it succeeds %v", e.earlier)
	}
}

func TestRememberedSessionsAreBounded(t *testing.T) {
	dir := t.TempDir()
	for range 30 {
		_ = next(t, dir).Close()
	}
	if n := len(next(t, dir).earlier); n != maxEarlier {
		t.Errorf("%d sessions remembered", n)
	}
}

func TestDamagedSessionFileIsNoReasonNotToStart(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "session.json"), []byte("{\"ses"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := OpenState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.begin(); err == nil {
		t.Error("the damage was not noticed")
	}
	_ = s.Close()
	if got := next(t, dir).previous(); got != s.session {
		t.Errorf("the file was not written anew: %q", got)
	}
}

func TestSecondProcessOnTheSameStateDirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	next(t, dir)
	_, err := OpenState(dir)
	if apperr.CodeOf(err) != apperr.Conflict || !strings.Contains(err.Error(), "already runs with state directory") {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(err.Error(), "process ") {
		t.Errorf("it does not say which process: %v", err)
	}
}

func TestStateDirectoryThatCannotBeMadeIsExplained(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenState(filepath.Join(file, "state")); apperr.CodeOf(err) != apperr.Invalid {
		t.Errorf("got %v", err)
	}
}
