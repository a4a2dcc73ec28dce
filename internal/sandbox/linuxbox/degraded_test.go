package linuxbox

import (
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/internal/clock"
	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/sandbox/boxtest"
	"github.com/gavel-oj/gavel/internal/testkit"
)

var (
	degraded    = flag.Bool("linuxbox.degraded", false, "set by tests for the processes they start: boxes as this process can have them")
	coverCgroup = flag.Bool("linuxbox.nocgroups", false, "likewise: first make all cgroups read-only, as a container has them")
)

// elsewhere runs tests of this package in a process with mounts of its own,
// started through prefix. It returns what that printed.
func elsewhere(t *testing.T, prefix []string, args ...string) string {
	t.Helper()
	needBoxes(t)
	dir, err := os.MkdirTemp("", "gavel-elsewhere")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	tmp, binary := filepath.Join(dir, "tmp"), filepath.Join(dir, "box.test")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(tmp, 0o755), os.Chmod(tmp, 0o777), copyFile("/proc/self/exe", binary), boxtest.Compile(t.Context(), dir)); err != nil {
		t.Fatal(err)
	}
	args = append([]string{"-test.v", "-linuxbox.degraded", "-boxtest.programs=" + dir}, args...)
	// Should the limits of these boxes fail, they fail below others.
	argv := append([]string{"-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, boundedGroup(t)}, prefix...)
	cmd := exec.CommandContext(t.Context(), "/bin/sh", append(append(argv, binary), args...)...)
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "HOME="+tmp)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out[max(0, len(out)-20000):])
	}
	return string(out)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// nobody starts a program as a user without any rights.
var nobody = []string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"}

// boundedGroup is a cgroup with a bound on processes.
func boundedGroup(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(ownLayout(t)[ctlPids].dir, "gavel-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := removeGroup(clock.System{}, dir); err != nil {
			t.Error(err)
		}
	})
	if err := writeFile(filepath.Join(dir, "pids.max"), "1500"); err != nil {
		testkit.Missing(t, testkit.Cgroup, "%v", err)
	}
	return dir
}

// degradedCases are the parts of the conformance suite that hold without
// cgroups. What a machine says to be weaker is skipped, by its own words.
const degradedCases = "^TestConformance$/^(verdicts|time|memory|output|processes|attacks|files|copy_out|between_runs|contract|refused_specs)$"

// TestConformanceWithoutRoot runs the suite as a user without rights, who on
// this machine may make namespaces.
func TestConformanceWithoutRoot(t *testing.T) {
	checkElsewhere(t, elsewhere(t, nobody, "-test.run", degradedCases), 120, "the worker's own user", "polled")
}

// TestConformanceWithoutCgroups runs it as root with read-only cgroups, as
// containers have them by default.
func TestConformanceWithoutCgroups(t *testing.T) {
	out := elsewhere(t, nil, "-linuxbox.nocgroups", "-test.run", degradedCases)
	checkElsewhere(t, out, 120, "read-only", "polled")
}

func checkElsewhere(t *testing.T, out string, minPassed int, weaker ...string) {
	t.Helper()
	passed := len(regexp.MustCompile(`(?m)^\s*--- PASS`).FindAllString(out, -1))
	skipped := len(regexp.MustCompile(`(?m)^\s*--- SKIP`).FindAllString(out, -1))
	t.Logf("%d passed, %d skipped", passed, skipped)
	if passed < minPassed {
		t.Errorf("%d tests passed, want %d\n%s", passed, minPassed, out[max(0, len(out)-5000):])
	}
	for _, words := range weaker {
		if !strings.Contains(out, words) {
			t.Errorf("the provider does not say %q", words)
		}
	}
}

// coverCgroups makes every cgroup mount read-only for this process.
func coverCgroups() error {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var errs []error
	for line := range strings.Lines(string(text)) {
		if m, ok := parseMount(line); ok && strings.HasPrefix(m.fsType, "cgroup") {
			errs = append(errs, unix.Mount(m.point, m.point, "", unix.MS_BIND, ""),
				unix.Mount("", m.point, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
		}
	}
	return errors.Join(errs...)
}

// TestWithoutCgroupsTheFaultNamesTheCure: by default such a machine is refused.
func TestWithoutCgroupsTheFaultNamesTheCure(t *testing.T) {
	if *coverCgroup {
		_, err := Open(Config{})
		fault, ok := errors.AsType[*sandbox.Fault](err)
		if !ok || !strings.Contains(err.Error(), "read-only") || !strings.Contains(fault.Hint, "--allow-degraded") {
			t.Errorf("error %v", err)
		}
		return
	}
	elsewhere(t, nil, "-linuxbox.nocgroups", "-test.run", "^"+t.Name()+"$")
}
