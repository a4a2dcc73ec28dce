// Package testkit holds what tests of several packages share: above all the
// rule that a test which cannot run says so loudly and is counted, and that
// CI can turn each such skip into a failure.
package testkit

import (
	"os"
	"strings"
	"testing"
)

// A Need is something of the machine that a test depends on.
type Need string

// The needs, as named in GAVEL_TEST_REQUIRE.
const (
	PG       Need = "pg"       // PostgreSQL server binaries
	Cgroup   Need = "cgroup"   // writable cgroups and namespaces: the real box
	UML      Need = "uml"      // user-mode-linux, for real cgroup v2
	Browser  Need = "browser"  // chromium
	Lang     Need = "lang"     // compilers and interpreters of the languages
	Systemd  Need = "systemd"  // systemd and its tools, and ssh
	Promtool Need = "promtool" // Prometheus' tool that checks and tests rules
)

// EnvRequire names the variable that lists needs which must be met, separated
// by commas; a test that would skip for one of them fails instead.
const EnvRequire = "GAVEL_TEST_REQUIRE"

// Missing ends the test because a need is not met: it fails when
// GAVEL_TEST_REQUIRE lists the need and skips otherwise. The line it prints
// starts with "SKIPPED need=", which `make test` counts and repeats.
func Missing(t testing.TB, need Need, format string, args ...any) {
	t.Helper()
	for r := range strings.SplitSeq(os.Getenv(EnvRequire), ",") {
		if strings.TrimSpace(r) == string(need) {
			t.Fatalf("required by %s: "+format, append([]any{EnvRequire + "=" + string(need)}, args...)...)
		}
	}
	t.Skipf("SKIPPED need=%s: "+format, append([]any{need}, args...)...)
}
