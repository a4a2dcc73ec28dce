package scripts

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// path makes a folder that is all of a script's PATH: the named programs of
// this machine, and scripts in place of others.
func path(t *testing.T, tools []string, fakes map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range tools {
		at, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(at, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range fakes {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/bash\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// run runs a script and returns its exit status and all it printed.
func run(t *testing.T, env []string, script string, args ...string) (int, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), script, args...)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func TestDepsSaysInOneLineWhatIsMissing(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("user-mode-linux, which these cases miss, exists for amd64 only")
	}
	tools := []string{"bash", "env", "dirname", "head", "sort", "uname"}
	with := func(names ...string) []string { return append(names, tools...) }
	newGo := map[string]string{"go": "echo go1.26.8", "id": "echo 1000"}
	fakes := func(more map[string]string) map[string]string {
		all := maps.Clone(newGo)
		maps.Copy(all, more)
		return all
	}
	tests := []struct {
		name  string
		path  string
		env   []string
		what  string
		exit  int
		wants []string
	}{
		{
			"no go", path(t, with(), nil), nil, "build", 1,
			[]string{"go: not found"},
		},
		{
			"an old go that cannot read go.mod", path(t, with(), map[string]string{"go": `[ "$PWD" = / ] && echo go1.19.8`}), nil, "build", 1,
			[]string{"version 1.19.8", "Go 1.26 or newer"},
		},
		{
			"an old go that fetches the right one", path(t, with(), map[string]string{"go": `[ "$PWD" = / ] && echo go1.22.1 || echo go1.26.0`}), nil, "build", 0,
			nil,
		},
		{
			"installing forbidden", path(t, with(), fakes(map[string]string{"apt-get": "echo apt-get ran; exit 1"})),
			[]string{"GAVEL_NO_INSTALL=1"},
			"ci", 1,
			[]string{"missing: ", "user-mode-linux make ", " (GAVEL_NO_INSTALL is set)", "run: sudo apt-get install "},
		},
		{
			"neither root nor sudo", path(t, with(), fakes(map[string]string{"apt-get": "echo apt-get ran; exit 1"})), nil, "ci", 1,
			[]string{"not root, and sudo needs a password"},
		},
		{
			"sudo that asks a password", path(t, with(), fakes(map[string]string{"apt-get": "echo apt-get ran", "sudo": `[ "$1" = -n ] && exit 1; echo apt-get ran`})), nil, "ci", 1,
			[]string{"not root, and sudo needs a password"},
		},
		{
			"another system", path(t, with(), newGo), nil, "ci", 1,
			[]string{"install with your package manager: ", "user-mode-linux make"},
		},
		{
			"tests go on without", path(t, with(), newGo), nil, "test", 0,
			[]string{"missing: "},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			exit, out := run(t, append([]string{"PATH=" + tt.path}, tt.env...), "./deps", tt.what)
			if exit != tt.exit {
				t.Errorf("exit status %d, want %d", exit, tt.exit)
			}
			if want := min(1, len(tt.wants)); strings.Count(out, "\n") != want {
				t.Errorf("%d lines, want %d", strings.Count(out, "\n"), want)
			}
			for _, want := range tt.wants {
				if !strings.Contains(out, want) {
					t.Errorf("does not say %q", want)
				}
			}
			if strings.Contains(out, "apt-get ran") {
				t.Error("it tried to install")
			}
			if t.Failed() {
				t.Logf("printed: %s", out)
			}
		})
	}
}

func TestDepsInstallsOnlyWhatIsMissing(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("user-mode-linux, which this case misses, exists for amd64 only")
	}
	log := filepath.Join(t.TempDir(), "log")
	dir := path(t, []string{"bash", "env", "dirname", "head", "sort", "uname", "mktemp", "rm", "make", "tail"}, map[string]string{
		"go": "echo go1.26.8", "id": "echo 0", "promtool": "", "ssh": "",
		"apt-get": `echo "$@" >>"$LOG"; case "$*" in *" install "*) echo >"$BIN/linux.uml"; chmod() { /bin/chmod "$@"; }; chmod +x "$BIN/linux.uml";; esac`,
	})
	env := []string{"PATH=" + dir, "BIN=" + dir, "LOG=" + log}
	for range 2 { // the second time there is nothing to do
		if exit, out := run(t, env, "./deps", "ci"); exit != 0 {
			t.Fatalf("exit status %d: %s", exit, out)
		}
	}
	got, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(got)), "\n")
	if len(lines) != 2 || !strings.HasSuffix(lines[0], " update") || !strings.HasSuffix(lines[1], " install --no-install-recommends user-mode-linux") {
		t.Errorf("apt-get was run with:\n%s", got)
	}
}

// Debian's package of promtool would start a server, so it is never installed.
func TestDepsUnpacksPromtoolAndInstallsNothing(t *testing.T) {
	log, dir := filepath.Join(t.TempDir(), "log"), t.TempDir()
	text, err := os.ReadFile("deps")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "scripts", "deps"), string(text))
	tools := path(t, []string{"bash", "env", "dirname", "head", "sort", "uname", "mktemp", "rm", "make", "tail", "tar", "mkdir", "mv"}, map[string]string{
		"go": "echo go1.26.8", "id": "echo 0", "linux.uml": "", "ssh": "",
		"apt-get":  `echo "$@" >>"$LOG"; case "$*" in *" download "*) echo package >prometheus_1_amd64.deb ;; esac`,
		"dpkg-deb": `[ "$(<"$2")" = package ] && mkdir -p p/usr/bin && echo the tool >p/usr/bin/promtool && tar -c -C p --mode=755 ./usr`,
	})
	for range 2 { // the second time there is nothing to do
		if exit, out := run(t, []string{"PATH=" + tools, "LOG=" + log}, filepath.Join(dir, "scripts", "deps"), "ci"); exit != 0 {
			t.Fatalf("exit status %d: %s", exit, out)
		}
	}
	if got, err := os.ReadFile(filepath.Join(dir, ".cache", "promtool")); err != nil || string(got) != "the tool\n" {
		t.Errorf("promtool is %q, %v", got, err)
	}
	got, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(got)), "\n")
	if len(lines) != 2 || !strings.HasSuffix(lines[0], " update") || lines[1] != "-q download prometheus" {
		t.Errorf("apt-get was run with:\n%s", got)
	}
}

// tree makes a copy of the scripts beside a stand-in for bin/gavel.
func tree(t *testing.T, gavel string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"demo", "up"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "scripts", name), string(text))
	}
	write(t, filepath.Join(dir, "bin", "gavel"), "#!/bin/bash\n"+gavel+"\n")
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestDemoPassesTheStatusOnAndLeavesNothingBehind(t *testing.T) {
	for _, want := range []string{"0", "1", "7"} {
		dir, tmp := tree(t, `echo "args: $*"; mkdir "$4"; exit `+want), t.TempDir()
		exit, out := run(t, append(os.Environ(), "TMPDIR="+tmp), filepath.Join(dir, "scripts", "demo"), "--slots", "3")
		if got := string(rune('0' + exit)); got != want {
			t.Errorf("exit status %s, want %s", got, want)
		}
		if !strings.HasPrefix(out, "args: up --once --data-dir "+tmp) || !strings.HasSuffix(out, " --listen 127.0.0.1:0 --slots 3\n") {
			t.Errorf("gavel was run with %s", out)
		}
		if left, _ := os.ReadDir(tmp); len(left) > 0 {
			t.Errorf("%s is left behind", left[0])
		}
	}
}

func TestDemoHandsTermOnAndWaits(t *testing.T) {
	dir, tmp := tree(t, `trap 'echo stopping; echo stopped >"$MARK"; exit 130' TERM; echo ready; while :; do read -r -t 1 <> <(:); done`), t.TempDir()
	mark := filepath.Join(t.TempDir(), "mark")
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "scripts", "demo"))
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "MARK="+mark)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, len("ready\n"))
	if _, err := stdout.Read(line); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if exit := cmd.ProcessState.ExitCode(); exit != 130 {
		t.Errorf("exit status %d, want gavel's 130", exit)
	}
	if got, err := os.ReadFile(mark); err != nil || !bytes.Equal(got, []byte("stopped\n")) {
		t.Errorf("gavel was not stopped before the script ended: %q, %v", got, err)
	}
	if left, _ := os.ReadDir(tmp); len(left) > 0 {
		t.Errorf("%s is left behind", left[0])
	}
}

func TestUpAvoidsAFolderThatPostgresCannotReach(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root starts PostgreSQL as another user")
	}
	dir, home := tree(t, `echo "$3"`), t.TempDir()
	env := append(os.Environ(), "GAVEL_DEV_HOME="+home)
	// t.TempDir is closed to others: the data goes elsewhere, and .data leads there.
	_, out := run(t, env, filepath.Join(dir, "scripts", "up"))
	lines := strings.Split(strings.TrimSpace(out), "\n")
	data := lines[len(lines)-1]
	if filepath.Dir(data) != home {
		t.Errorf("in a private folder the data goes to %s", out)
	}
	if to, err := os.Readlink(filepath.Join(dir, ".data")); err != nil || to != data {
		t.Errorf(".data leads to %q (%v), not to %s", to, err, data)
	}
	if _, again := run(t, env, filepath.Join(dir, "scripts", "up")); again != out {
		t.Errorf("the second time:\n%s\nthe first time:\n%s", again, out)
	}
	if _, out := run(t, env, filepath.Join(tree(t, `echo "$3"`), "scripts", "up")); strings.HasSuffix(out, data+"\n") {
		t.Error("two clones share their data")
	}
	inTheWay := tree(t, `echo started`)
	write(t, filepath.Join(inTheWay, ".data", "admin-token"), "x")
	if exit, out := run(t, env, filepath.Join(inTheWay, "scripts", "up")); exit != 1 || strings.Contains(out, "started") {
		t.Errorf("with data that PostgreSQL cannot reach: exit status %d, %s", exit, out)
	}
	open, err := os.MkdirTemp("/var/tmp", "gavel-open")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(open) })
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(open, "tree"), os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(open, "tree"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"scripts/up", "bin/gavel"} {
		if err := os.Chmod(filepath.Join(open, "tree", name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, out := run(t, os.Environ(), filepath.Join(open, "tree", "scripts", "up")); out != filepath.Join(open, "tree", ".data")+"\n" {
		t.Errorf("in an open folder the data goes to %s", out)
	}
}

func TestCheckRefusesAnUnknownStage(t *testing.T) {
	if exit, out := run(t, os.Environ(), "./check", "speling"); exit != 2 || !strings.Contains(out, "no stage 'speling'") {
		t.Errorf("exit status %d: %s", exit, out)
	}
}
