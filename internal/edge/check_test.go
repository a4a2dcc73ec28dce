package edge_test

import (
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What is wrong with the settings is said before the machine is looked at, and
// ends the program: no supervisor's log fills with attempts that cannot succeed.
func TestAnEdgeWorkerThatCannotStartSaysSoAtOnce(t *testing.T) {
	s := newStand(t)
	dir := t.TempDir()
	bin := filepath.Join(dir, "gavel")
	buildGavel(t, bin)
	s.exec("insert into workers (name) values ('taken')")
	s.exec("create schema elsewhere")
	with := func(key, value string) string {
		u, err := url.Parse(s.url)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		switch {
		case key == "database":
			u.Path = "/" + value
		case key == "user" && !q.Has("user"):
			u.User = url.User(value)
		default:
			q.Set(key, value)
		}
		u.RawQuery = q.Encode()
		return u.String()
	}
	for name, c := range map[string]struct {
		url, worker string
		code        int
		want        string
	}{
		"no URL at all":       {"postgres://[", "w", 2, "the database URL cannot be parsed"},
		"an unknown login":    {with("user", "gavel_test_nobody"), "w", 6, "check user and password in the database URL"},
		"an unknown database": {with("database", "gavel_test_none"), "w", 4, "create it first: createdb gavel_test_none"},
		"no search_path":      {with("search_path", "elsewhere"), "w", 4, "set search_path = public"},
		"an empty database":   {with("database", "template1"), "w", 4, "has none of gavel's functions"},
		"a login of a site":   {s.site(), "w", 6, "grant gavel_edge to \"gavel_test_site\""},
		"another's name":      {s.url, "taken", 6, "a worker of this name is enrolled with the arbiter"},
	} {
		t.Run(name, func(t *testing.T) {
			state := filepath.Join(t.TempDir(), "state")
			out, err := exec.CommandContext(t.Context(), bin, "edge-worker", "--database-url", c.url, "--name", c.worker, "--slots", "1", //nolint:gosec // the program under test
				"--packages-dir", dir, "--state-dir", state).CombinedOutput()
			ended, ok := errors.AsType[*exec.ExitError](err)
			if !ok || ended.ExitCode() != c.code || !strings.Contains(string(out), c.want) || strings.Contains(string(out), "arbiter at the database") {
				t.Errorf("%v, want %d and %q:\n%s", err, c.code, c.want, out)
			}
			if _, err := os.Stat(filepath.Join(state, "scratch")); err == nil {
				t.Error("the machine was looked at first")
			}
		})
	}
}

// A server that is not there may come yet, and is waited for.
func TestAnEdgeWorkerWaitsForItsServer(t *testing.T) {
	dir := t.TempDir()
	bin := filepath.Join(dir, "gavel")
	buildGavel(t, bin)
	p := start(t, bin, "edge-worker", "--database-url", "postgres://w@127.0.0.1:1/gavel", "--name", "w", "--slots", "1", "--packages-dir", dir, "--state-dir", filepath.Join(dir, "state"))
	eventually(t, time.Minute, "it asks again", func() bool { return strings.Count(p.text(), "the database cannot be reached yet") > 1 })
	p.signal(t, syscall.SIGTERM)
	<-p.done
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("it ended with %d", code)
	}
}
