// Package umltest runs tests of boxes on a machine of its own: a user-mode
// Linux, which is an ordinary process whatever the host's kernel and cgroups
// are, with the host's files to read. That is how every machine tests cgroup
// version 2, and the mixtures that some distributions have.
//
//	umltest.Machine{Mounts: umltest.V2, Tests: "^TestConformance$"}.Run(t)
//
// The tests are those of the calling package, in a binary built for it. They
// are slow there (a page fault costs twenty times as much), so it is for what
// happens, never for how long it takes.
package umltest

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

// Arrangements of cgroups, as parts of the first process's script.
const (
	// V2 is version 2 alone.
	V2 = `mount -t cgroup2 -o nsdelegate cgroup2 /sys/fs/cgroup
echo "+memory +pids" >/sys/fs/cgroup/cgroup.subtree_control`
	// Hybrid has memory on version 2 and the rest on version 1.
	Hybrid = `mkdir -p /run/v1/pids /run/v1/cpuacct
mount -t cgroup -o pids pids /run/v1/pids
mount -t cgroup -o cpuacct cpuacct /run/v1/cpuacct
mount -t cgroup2 -o nsdelegate cgroup2 /sys/fs/cgroup
echo "+memory" >/sys/fs/cgroup/cgroup.subtree_control`
)

// Machine is one arrangement to run tests on.
type Machine struct {
	Mounts    string   // V2, Hybrid or a script
	Tests     string   // -test.run
	Args      []string // more for the test binary
	MemoryMiB int      // 640 when 0
	MinPassed int      // fewer tests that pass are a failure
	Says      string   // what the tests must print somewhere
	// AtMost is how long it may take; 5 minutes when 0.
	AtMost time.Duration
}

// initScript is the first process of the machine. The kernel passes no exit
// status on, so the script prints one.
//
// The worker's cgroup is a unit's, as under systemd: not the root of the
// hierarchy, with the worker's processes in it. It must look afterwards as
// before, so no leaf may be left.
const initScript = `#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs -o mode=0755 tmpfs /run
mkdir -p /dev/shm
mount -t tmpfs -o mode=1777 tmpfs /dev/shm 2>/dev/null
mkdir /run/cases
cp %[1]s/box.test %[1]s/hostile /run/cases/
chmod -R a+rX /run/cases
mkdir /run/module
mount --bind %[4]s /run/module
mount -t tmpfs tmpfs /tmp
ip link set lo up 2>/dev/null
%[3]s
mkdir -p /sys/fs/cgroup/gavel.service
echo $$ >/sys/fs/cgroup/gavel.service/cgroup.procs
cd /run/module/%[6]s || exit
HOME=/tmp /run/cases/box.test -test.v -test.run '%[2]s' -test.timeout 20m -boxtest.programs=/run/cases %[5]s
echo "UML-RESULT exit=$? left=$(find /sys/fs/cgroup /run/v1 -name 'gavel-*' 2>/dev/null | wc -l)"
echo o >/proc/sysrq-trigger
sleep 60
`

// Run runs the tests of the calling package on the machine.
func (m Machine) Run(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("boots a virtual machine")
	}
	kernel, err := exec.LookPath("linux.uml")
	if err != nil {
		testkit.Missing(t, testkit.UML, "linux.uml not found: apt-get install user-mode-linux")
	}
	if m.MemoryMiB == 0 {
		m.MemoryMiB = 640
	}
	if m.AtMost == 0 {
		m.AtMost = 5 * time.Minute
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	script := m.prepare(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), m.AtMost)
	defer cancel()
	vm := exec.CommandContext(ctx, kernel, "quiet", fmt.Sprintf("mem=%dM", m.MemoryMiB), "root=/dev/root", "rootfstype=hostfs", "rootflags=/",
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
	if result == nil || result[1] != "0" || result[2] != "0" || passed < m.MinPassed || !strings.Contains(text, m.Says) {
		t.Fatalf("machine ended with %v, result %q, %d passed\n%s", err, result, passed, text[max(0, len(text)-40000):])
	}
	t.Logf("%d passed, %d skipped", passed, skipped)
}

// prepare puts what the machine needs into dir.
func (m Machine) prepare(t *testing.T, dir string) (script string) {
	t.Helper()
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", filepath.Join(dir, "box.test"), ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the test binary: %v\n%s", err, out)
	}
	if err := boxtest.Compile(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd() // that of the package, where its testdata is
	if err != nil {
		t.Fatal(err)
	}
	root := here // of the module, which may lie below the /tmp that the machine covers
	for root != "/" && !exists(filepath.Join(root, "go.mod")) {
		root = filepath.Dir(root)
	}
	inside, err := filepath.Rel(root, here)
	if err != nil {
		t.Fatal(err)
	}
	script = filepath.Join(dir, "init.sh")
	if err := os.WriteFile(script, fmt.Appendf(nil, initScript, dir, m.Tests, m.Mounts, root, strings.Join(m.Args, " "), inside), 0o755); err != nil {
		t.Fatal(err)
	}
	return script
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
