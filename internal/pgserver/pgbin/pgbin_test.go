package pgbin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/testkit"
)

// fake makes a directory with programs that say this version.
func fake(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	script(t, filepath.Join(dir, "postgres"), fmt.Sprintf("echo 'postgres (PostgreSQL) %s'", version))
	script(t, filepath.Join(dir, "initdb"), "exit 0")
	return dir
}

func script(t *testing.T, path, body string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestNewestUsableVersionComesFirst(t *testing.T) {
	old, v15, v159, v17 := fake(t, "13.9"), fake(t, "15.18 (Debian 15.18-0+deb12u1)"), fake(t, "15.9"), fake(t, "17beta2")
	got, err := Find(t.Context(), Options{Dirs: []string{v15, old, filepath.Join(old, "missing"), v17, v159, v15}})
	if err != nil {
		t.Fatal(err)
	}
	want := []Install{
		{Dir: v17, Major: 17, Version: "17beta2"},
		{Dir: v15, Major: 15, Version: "15.18"},
		{Dir: v159, Major: 15, Version: "15.9"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}

func TestLinkIsFollowedToTheRealFolder(t *testing.T) {
	real := fake(t, "16.1")
	link := t.TempDir()
	if err := os.Symlink(filepath.Join(real, "postgres"), filepath.Join(link, "postgres")); err != nil {
		t.Fatal(err)
	}
	got, err := Find(t.Context(), Options{Dirs: []string{link, real}})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Dir != real || got[0].Path("initdb") != filepath.Join(real, "initdb") {
		t.Errorf("found %v", got)
	}
}

func TestRejectedProgramsAreNamed(t *testing.T) {
	broken := fake(t, "x")
	noInitdb := fake(t, "16.1")
	if err := os.Remove(filepath.Join(noInitdb, "initdb")); err != nil {
		t.Fatal(err)
	}
	crash := fake(t, "16.1")
	script(t, filepath.Join(crash, "postgres"), "exit 3")
	old := fake(t, "13.2")
	_, err := Find(t.Context(), Options{Dirs: []string{broken, noInitdb, crash, old}})
	e, ok := errors.AsType[*apperr.Error](err)
	if !ok || e.Hint == "" {
		t.Fatalf("error %#v", err)
	}
	for _, part := range []string{
		broken + "/postgres does not say its version", noInitdb + " has postgres but no executable initdb",
		crash + "/postgres does not run", old + " is PostgreSQL 13.2, older than 14",
	} {
		if !strings.Contains(e.Message, part) {
			t.Errorf("message %q lacks %q", e.Message, part)
		}
	}
}

func TestInstallCommandFitsTheDistribution(t *testing.T) {
	tests := map[string]struct{ osRelease, want, want15 string }{
		"debian":  {"ID=debian\n", "apt-get install postgresql", "apt-get install postgresql-15"},
		"derived": {"ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", "apt-get install postgresql", "apt-get install postgresql-15"},
		"rocky":   {"ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", "dnf install postgresql-server", "dnf install postgresql15-server"},
		"alpine":  {"ID=alpine\n", "apk add postgresql", "apk add postgresql15"},
		"unknown": {"ID=beos\n", "the package is called postgresql or postgresql-server", "the package is called postgresql or postgresql-server"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "os-release")
			if err := os.WriteFile(file, []byte(tt.osRelease), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := InstallCommand(file); got != tt.want {
				t.Errorf("got %q", got)
			}
			if got := InstallCommandFor(file, 15); got != tt.want15 {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestCancelledSearchSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Find(ctx, Options{Dirs: []string{fake(t, "16.1")}}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestRealPrograms(t *testing.T) {
	got, err := Find(t.Context(), Options{})
	if err != nil {
		testkit.Missing(t, testkit.PG, "%v", err)
	}
	if got[0].Major < MinMajor || got[0].Version == "" {
		t.Errorf("found %+v", got[0])
	}
}
