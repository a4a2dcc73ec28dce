package linuxbox

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/internal/sandbox/boxtest"
	"github.com/gavel-oj/gavel/internal/testkit"
)

// umlInit is the first process of the virtual vm. The kernel passes no
// exit status on, so the script prints one.
//
// The worker's cgroup is a unit's, as under systemd: not the root of the
// hierarchy, with the worker's processes in it.
const umlInit = `#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs -o mode=0755 tmpfs /run
mount -t tmpfs tmpfs /dev/shm 2>/dev/null
mkdir /run/cases
cp %[1]s/box.test %[1]s/hostile /run/cases/
chmod -R a+rX /run/cases
mount -t tmpfs tmpfs /tmp
%[3]s
mkdir -p /sys/fs/cgroup/gavel.service
echo $$ >/sys/fs/cgroup/gavel.service/cgroup.procs
cd /run/cases
HOME=/tmp ./box.test -test.v -test.run '%[2]s' -test.timeout 10m -boxtest.programs=/run/cases
echo "UML-RESULT exit=$? left=$(find /sys/fs/cgroup /run/v1 -name 'gavel-*' 2>/dev/null | wc -l)"
echo o >/proc/sysrq-trigger
sleep 60
`

// umlMachine is one arrangement of cgroups to run tests on.
type umlMachine struct {
	mounts    string // part of the init script
	cases     string // -test.run
	layout    string // what the provider must report
	minPassed int
}

// TestOnCgroupV2UnderUML runs the suite on a real cgroup v2 hierarchy, in a
// user-mode kernel: an ordinary process, whatever the host's cgroups are. The
// unit's own cgroup must look afterwards as before, so no leaf may be left.
func TestOnCgroupV2UnderUML(t *testing.T) {
	umlMachine{
		mounts: `mount -t cgroup2 -o nsdelegate cgroup2 /sys/fs/cgroup
echo "+memory +pids" >/sys/fs/cgroup/cgroup.subtree_control`,
		// The conformance suite, and the tests of this package that depend on
		// the kind of cgroup.
		cases:  "^(TestConformance|TestStale.*|TestKilledWorker.*|TestNothingIsLeft.*|TestMachineOut.*)$",
		layout: "v2", minPassed: 170,
	}.test(t)
}

// TestOnHybridCgroupsUnderUML has memory on version 2 and the rest on version
// 1, as some distributions do.
func TestOnHybridCgroupsUnderUML(t *testing.T) {
	umlMachine{
		mounts: `mkdir -p /run/v1/pids /run/v1/cpuacct
mount -t cgroup -o pids pids /run/v1/pids
mount -t cgroup -o cpuacct cpuacct /run/v1/cpuacct
mount -t cgroup2 -o nsdelegate cgroup2 /sys/fs/cgroup
echo "+memory" >/sys/fs/cgroup/cgroup.subtree_control`,
		cases:  "^(TestConformance|TestNothingIsLeft.*)$/^(time|memory|processes)$/(cpu_loop|threads|too_much|innocent|fork_bomb|daemon|a_child)",
		layout: "hybrid", minPassed: 10,
	}.test(t)
}

func (m umlMachine) test(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("boots a virtual machine")
	}
	kernel, err := exec.LookPath("linux.uml")
	if err != nil {
		testkit.Missing(t, testkit.UML, "linux.uml not found: apt-get install user-mode-linux")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", filepath.Join(dir, "box.test"), ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the test binary: %v\n%s", err, out)
	}
	if err := boxtest.Compile(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "init.sh")
	if err := os.WriteFile(script, fmt.Appendf(nil, umlInit, dir, m.cases, m.mounts), 0o755); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	vm := exec.CommandContext(ctx, kernel, "quiet", "mem=640M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/",
		"ro", "init="+script, "con0=fd:0,fd:1", "con=null", "umid=gavel-"+filepath.Base(dir))
	vm.Dir = dir
	vm.Env = append(os.Environ(), "HOME="+dir, "TMPDIR=/dev/shm")
	var console bytes.Buffer
	vm.Stdout, vm.Stderr = &console, &console
	err = vm.Run()
	text := strings.ReplaceAll(console.String(), "\r", "")

	result := regexp.MustCompile(`(?m)^UML-RESULT exit=(\d+) left=(\d+)$`).FindStringSubmatch(text)
	passed := len(regexp.MustCompile(`(?m)^\s*--- PASS`).FindAllString(text, -1))
	skipped := len(regexp.MustCompile(`(?m)^\s*--- SKIP`).FindAllString(text, -1))
	if result == nil || result[1] != "0" || result[2] != "0" || passed < m.minPassed || !strings.Contains(text, "Layout:"+m.layout+" ") {
		t.Fatalf("machine ended with %v, result %q, %d passed\n%s", err, result, passed, tail(text, 40000))
	}
	t.Logf("cgroups %s: %d passed, %d skipped", m.layout, passed, skipped)
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }
