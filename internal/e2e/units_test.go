package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/internal/testkit"
)

const unitsDir = "../../deploy/systemd"

// units are the systemd units that ship, with the most that `systemd-analyze
// security` may say of each, in tenths: a worker makes boxes, for which it needs
// most of what others are denied.
var units = map[string]int{
	"gavel-arbiter.service": 15, "gavel-tunnel.service": 15, "gavel-worker.service": 65, "gavel-edge-worker.service": 65,
}

// unit is a unit file: its directives in order, each with all its values.
type unit map[string][]string

func readUnit(t *testing.T, name string) (unit, string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(unitsDir, name))
	if err != nil {
		t.Fatal(err)
	}
	u := unit{}
	for line := range strings.Lines(string(raw)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && !strings.HasPrefix(key, "#") {
			u[key] = append(u[key], value)
		}
	}
	return u, string(raw)
}

// words of a directive that may be given more than once.
func (u unit) words(key string) []string { return strings.Fields(strings.Join(u[key], " ")) }

func TestEveryUnitThatShipsIsKnownHere(t *testing.T) {
	found, err := filepath.Glob(filepath.Join(unitsDir, "*.*"))
	if err != nil || len(found) != len(units) {
		t.Errorf("%d units in %s, %d are tested: %v, %v", len(found), unitsDir, len(units), found, err)
	}
}

// What units start is taken by the programs as they are: their help is asked
// for beside the flags, which are looked at first. So are the variables.
func TestUnitsStartWhatTheProgramsTake(t *testing.T) {
	bin, err := testkit.Programs()
	if err != nil {
		t.Fatal(err)
	}
	started := 0
	for name := range units {
		u, text := readUnit(t, name)
		for _, line := range slices.Concat(u["ExecStartPre"], u["ExecStart"]) {
			argv := strings.Fields(line)
			if !strings.HasPrefix(argv[0], "/usr/bin/gavel") {
				continue
			}
			started++
			program := filepath.Join(bin, filepath.Base(argv[0]))
			out, err := exec.CommandContext(t.Context(), program, append(argv[1:], "--help")...).CombinedOutput()
			if err != nil {
				t.Errorf("%s: %s: %v\n%s", name, line, err, out)
			}
			if out, err := exec.CommandContext(t.Context(), program, append(argv[1:], "--no-such-flag", "--help")...).CombinedOutput(); err == nil {
				t.Errorf("asking for help, %s takes any flag: this test shows nothing\n%s", program, out)
			}
			if !strings.HasPrefix(line, "/usr/bin/gavel edge-worker") {
				continue
			}
			for _, variable := range regexp.MustCompile(`\bGAVEL_[A-Z_]+`).FindAllString(text, -1) {
				if !bytes.Contains(out, []byte("$"+variable)) {
					t.Errorf("%s: the program does not know %s", name, variable)
				}
			}
		}
	}
	if started != 4 {
		t.Errorf("%d command lines of ours were found", started)
	}
}

// The arbiter's unit hands its settings over by a variable and a credential.
func TestTheArbitersUnitGivesSettingsThatTheProgramKnows(t *testing.T) {
	bin, err := testkit.Programs()
	if err != nil {
		t.Fatal(err)
	}
	u, _ := readUnit(t, "gavel-arbiter.service")
	credentials := t.TempDir()
	for _, c := range u["LoadCredential"] {
		name, _, _ := strings.Cut(c, ":")
		if err := os.WriteFile(filepath.Join(credentials, name), []byte("postgres://gavel@/gavel"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(environ ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "gavel"), "config", "check")
		cmd.Env = append([]string{"PATH=/usr/bin:/bin", "CREDENTIALS_DIRECTORY=" + credentials}, environ...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := check(u["Environment"]...); err != nil || strings.Contains(out, "GAVEL_") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, _ := check("GAVEL_NO_SUCH_SETTING=1"); !strings.Contains(out, "GAVEL_NO_SUCH_SETTING") {
		t.Errorf("an unknown variable is not complained of: this test shows nothing\n%s", out)
	}
}

func TestTheTunnelsCommandLineIsTakenBySSH(t *testing.T) {
	ssh, err := exec.LookPath("ssh")
	if err != nil {
		testkit.Missing(t, testkit.Systemd, "no ssh: %v", err)
	}
	u, _ := readUnit(t, "gavel-tunnel.service")
	line := strings.NewReplacer("${TUNNEL_FORWARD}", "127.0.0.1:15432:127.0.0.1:5432", "${TUNNEL_TO}", "judgetun@judge.example.org", "%d", t.TempDir()).Replace(u["ExecStart"][0])
	argv := strings.Fields(line)
	// -G says what it would do, and does nothing.
	out, err := exec.CommandContext(t.Context(), ssh, append([]string{"-G"}, argv[1:]...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	for _, want := range []string{
		"exitonforwardfailure yes", "batchmode yes", "stricthostkeychecking true", "serveraliveinterval 5", "serveralivecountmax 3",
		"localforward [127.0.0.1]:15432 [127.0.0.1]:5432", "user judgetun",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("ssh would not use %q", want)
		}
	}
}

// systemd stops units in the reverse of the order in which it starts them:
// After the tunnel means stopped before it. A tunnel that breaks must not take
// the worker with it, and the two ways of a machine are never on at once.
func TestWorkersStopBeforeTheirTunnel(t *testing.T) {
	for name, other := range map[string]string{"gavel-worker.service": "gavel-edge-worker.service", "gavel-edge-worker.service": "gavel-worker.service"} {
		u, _ := readUnit(t, name)
		if !slices.Contains(u.words("After"), "gavel-tunnel.service") {
			t.Errorf("%s may be stopped after its tunnel", name)
		}
		for _, key := range []string{"Requires", "Requisite", "BindsTo", "PartOf", "StopPropagatedFrom"} {
			if slices.Contains(u.words(key), "gavel-tunnel.service") {
				t.Errorf("%s: %s of the tunnel would end it with the tunnel, when nothing can be handed back", name, key)
			}
		}
		if !slices.Contains(u.words("Conflicts"), other) {
			t.Errorf("%s may run beside %s", name, other)
		}
		if got := u.words("StateDirectory"); !slices.Equal(got, []string{"gavel-worker"}) {
			t.Errorf("%s keeps its state in %v: going over would leave results behind", name, got)
		}
		if !slices.Equal(u["KillMode"], []string{"mixed"}) {
			t.Errorf("%s: KillMode %v; the boxes are the worker's to end", name, u["KillMode"])
		}
		seconds, err := strconv.Atoi(strings.Join(u["TimeoutStopSec"], ""))
		if err != nil || time.Duration(seconds)*time.Second < 30*time.Second {
			t.Errorf("%s: TimeoutStopSec %v, %v; handing back takes some seconds", name, u["TimeoutStopSec"], err)
		}
	}
	u, _ := readUnit(t, "gavel-tunnel.service")
	for _, key := range []string{"After", "Requires", "Wants", "BindsTo", "PartOf"} {
		for _, of := range u.words(key) {
			if strings.HasPrefix(of, "gavel-") {
				t.Errorf("the tunnel is %s %s, which can turn the order around", key, of)
			}
		}
	}
}

func TestUnitsPassSystemdsOwnChecks(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		testkit.Missing(t, testkit.Systemd, "%v", err)
	}
	bin, err := testkit.Programs()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	// The programs are not installed; where they are is all that is changed.
	place := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "/usr/bin/gavel", bin+"/gavel")), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), analyze, args...)
		cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+dir+":") // with the system's own targets
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	texts := map[string]string{}
	for name := range units {
		_, texts[name] = readUnit(t, name)
		place(name, texts[name])
	}
	for name, most := range units {
		file := filepath.Join(dir, name)
		if out, err := run("verify", "--man=no", file); err != nil || strings.TrimSpace(out) != "" {
			t.Errorf("verify %s: %v\n%s", name, err, out)
		}
		if out, err := run("security", "--offline=true", "--threshold="+strconv.Itoa(most), file); err != nil {
			t.Errorf("security %s: %v\n%s", name, err, out)
		}
	}
	// And both complain of what is wrong.
	if out, err := run("verify", "--man=no", place("gavel-wrong.service", texts["gavel-arbiter.service"]+"\nAfterr=x\n")); err == nil && strings.TrimSpace(out) == "" {
		t.Error("verify takes anything")
	}
	if _, err := run("security", "--offline=true", "--threshold=15", place("gavel-open.service", "[Service]\nExecStart=/usr/bin/gavel serve\n")); err == nil {
		t.Error("security takes anything")
	}
}
