package deploy

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/internal/testkit"
)

// The units of deploy/systemd as they are, under a systemd that is the first
// process of a machine: a user-mode Linux, whose cgroups are version 2. Site
// and judge are the same machine here. What is done and seen there is in
// steps_test.go, what else the machine has in testdata/machine.
//
//	go test -run TestUnitsOnAMachine -v ./deploy     # with -units.log FILE for all that the machine says
//
// A page fault costs twenty times as much there: it is for what happens, never
// for how long it takes.
func TestUnitsOnAMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("boots a virtual machine")
	}
	kernel, err := exec.LookPath("linux.uml")
	if err != nil {
		testkit.Missing(t, testkit.UML, "linux.uml not found: apt-get install user-mode-linux")
	}
	for _, pattern := range []string{systemd, "/usr/lib/*/libnss_systemd.so.2", "/usr/bin/ssh", "/usr/bin/gcc"} {
		if found, err := filepath.Glob(pattern); err != nil || len(found) == 0 {
			testkit.Missing(t, testkit.Systemd, "no %s: apt-get install systemd libnss-systemd openssh-client gcc", pattern)
		}
	}
	if os.Geteuid() != 0 {
		testkit.Missing(t, testkit.Cgroup, "the machine's files belong to root")
	}
	root := machineRoot(t)
	console := boot(t, kernel, root)

	said := regexp.MustCompile(`(?m)^UNITS (ok|FAILED|last) (.*)$`).FindAllStringSubmatch(console, -1)
	var done []string
	last := ""
	for _, line := range said {
		switch line[1] {
		case "ok":
			done = append(done, line[2])
		case "FAILED":
			t.Errorf("%s", line[2])
		case "last":
			last = line[2]
		}
	}
	var want []string
	for _, s := range steps {
		want = append(want, s.name)
	}
	if !slices.Equal(done, want) {
		t.Errorf("done are %q, not all of %q", done, want)
	}
	// Nobody but the database sees what a shutdown does. The job is waiting again, at no cost.
	if !regexp.MustCompile(`^submission=\d+ gen=\d+ released: now pending, 0 attempts$`).MatchString(last) {
		t.Errorf("after the shutdown the last attempt is %q: the worker could not hand it back", last)
	}
	if t.Failed() {
		t.Logf("the machine said:\n%s", console[max(0, len(console)-60000):])
	}
}

const systemd = "/usr/lib/systemd/systemd"

// boot runs the machine to its end and returns what it said.
func boot(t *testing.T, kernel, root string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	// The system's own programs are shown in the machine's root, in a mount namespace that goes with it.
	script := `set -e
for dir in lib lib64 sbin share include libexec; do [ ! -e /usr/$dir ] || mount --rbind -o ro /usr/$dir "$0/usr/$dir"; done
mount --rbind -o ro /usr/bin "$0/usr/all-bin"
mount --rbind -o ro /etc/alternatives "$0/etc/alternatives"
mount --rbind -o ro "$1" "$0/srv/postgresql"
shift
exec "$@"`
	vm := exec.CommandContext(ctx, "/bin/sh", "-c", script, root, postgresPrograms(t), kernel,
		// Memory for a compiler, and too little for those that would take minutes to test themselves.
		"quiet", "loglevel=3", "mem=1600M", "root=/dev/root", "rootfstype=hostfs", "rootflags="+root, "rw", "init="+systemd,
		"con0=fd:0,fd:1", "con=null", "umid=gavel-"+filepath.Base(filepath.Dir(root)),
		// The units of the machine are those of testdata, and nothing that the host happens to have.
		"systemd.unit=drive.target", "SYSTEMD_UNIT_PATH=/etc/systemd/system", "SYSTEMD_GENERATOR_PATH=/etc/none", "SYSTEMD_COLORS=0")
	home := t.TempDir()
	vm.Dir, vm.Env = home, append(os.Environ(), "HOME="+home, "TMPDIR=/dev/shm")
	vm.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	var console bytes.Buffer
	vm.Stdout, vm.Stderr = &console, &console
	err := vm.Run()
	text := strings.ReplaceAll(console.String(), "\r", "")
	if err != nil {
		t.Errorf("the machine ended with %v after %v of CPU", err, vm.ProcessState)
	}
	if *unitsLog != "" {
		if err := os.WriteFile(*unitsLog, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
	t.Logf("CPU: %v user, %v system", vm.ProcessState.UserTime(), vm.ProcessState.SystemTime())
	return text
}

// step is one thing that the machine does and looks at.
type step struct {
	name string
	do   func(d *driver)
}

// inMachine is this test's program in the machine.
func inMachine(part string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 14*time.Minute)
	defer cancel()
	if part == "ssh-server" {
		fmt.Fprintln(os.Stderr, sshServer(ctx))
		return 1
	}
	d := &driver{ctx: ctx}
	for _, s := range steps {
		if err := d.try(s); err != nil {
			fmt.Printf("UNITS FAILED %s: %v\n", s.name, err)
			for _, command := range []string{
				"systemctl status --no-pager -l -n 0 gavel-* ssh-server postgresql",
				"journalctl --no-pager -o cat -n 60 -u gavel-arbiter -u ssh-server", "journalctl --no-pager -n 60 -u gavel-worker -u gavel-edge-worker -u gavel-tunnel",
			} {
				out, _ := exec.CommandContext(ctx, "/bin/sh", "-c", command).CombinedOutput()
				fmt.Printf("$ %s\n%s\n", command, out)
			}
			break
		}
		fmt.Printf("UNITS ok %s\n", s.name)
	}
	d.close()
	// Not waited for: this process is stopped by it.
	if err := exec.CommandContext(context.WithoutCancel(ctx), "systemctl", "--no-block", "poweroff").Run(); err != nil {
		fmt.Println("UNITS FAILED poweroff:", err)
		return 1
	}
	return 0
}
