package linuxbox

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var allow = cmp.AllowUnexported(runReq{}, outcome{}, copyReq{}, fileOutcome{})

func TestRunMessageSurvivesTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := func(name string) []string {
			l := rapid.SliceOfN(rapid.String(), 0, 5).Draw(t, name)
			if len(l) == 0 {
				return nil
			}
			return l
		}
		num := func(name string) int64 { return rapid.Int64().Draw(t, name) }
		want := &runReq{
			argv: list("argv"), env: list("env"), dirs: list("dirs"), mountPoints: list("mounts"),
			cpu: time.Duration(num("cpu")), wall: time.Duration(num("wall")),
			stackBytes: num("stack"), fileBytes: num("file"), diskBytes: num("disk"), diskInodes: num("inodes"),
			openFiles: int(num("files")), joins: int(num("joins")),
			newMeter: rapid.Bool().Draw(t, "meter"), intoV2: rapid.Bool().Draw(t, "v2"), keepMounts: rapid.Bool().Draw(t, "keep"),
		}
		for _, p := range list("copy") {
			want.copyOut = append(want.copyOut, copyReq{p, num("max")})
		}
		got, err := unpackRun(want.pack()[1:])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, allow); diff != "" {
			t.Error(diff)
		}
	})
}

func TestOutcomeSurvivesTheWire(t *testing.T) {
	want := &outcome{
		fault: "exec", faultErr: "no such file", errno: 2, exitCode: 255, signal: 31, fired: causeOutput,
		cpu: time.Second, wall: time.Minute, fileLimit: true, slow: true, clean: true,
		files: []fileOutcome{{fileOK, 1 << 40}, {fileNotRegular, 0}},
	}
	got, err := unpackOutcome(want.pack()[1:])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, allow); diff != "" {
		t.Error(diff)
	}
}

func FuzzPackets(f *testing.F) {
	f.Add((&runReq{argv: []string{"/bin/true"}, openFiles: 3}).pack()[1:])
	f.Add((&outcome{files: []fileOutcome{{}}}).pack()[1:])
	f.Fuzz(func(t *testing.T, b []byte) {
		// Cut or made-up packets are errors, never a panic or a huge allocation.
		_, _ = unpackRun(b)
		_, _ = unpackOutcome(b)
	})
}

func TestWatcherNeverSleepsPastALimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cpu := time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "cpu left"))
		wall := time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "wall left"))
		cpus := rapid.IntRange(0, 256).Draw(t, "cpus")
		d := nextLook(cpu, wall, cpus)
		// A program that runs on all CPUs passes its limit by what minWait allows.
		if over := d*time.Duration(max(cpus, 1)) - cpu; over > minWait*time.Duration(max(cpus, 1)) {
			t.Fatalf("sleeps %v: %v of CPU time over the limit", d, over)
		}
		// A long sleep ends so early that a late wake-up is still before the limit.
		if d > minWait && d*time.Duration(max(cpus, 1))+lateWake > cpu {
			t.Fatalf("sleeps %v with %v of CPU time left: no time for a late wake-up", d, cpu)
		}
		if d > wall || d > maxWait {
			t.Fatalf("sleeps %v with %v of wall time left", d, wall)
		}
		if d < minWait && wall > minWait {
			t.Fatalf("sleeps %v: spins", d)
		}
	})
}

func TestCountersOfBothVersionsAreRead(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"123456789\n":                    123456789,
		"usage_usec 1500\nuser_usec 1\n": 1500 * time.Microsecond,
	} {
		if got, err := parseCPU([]byte(text)); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x\n", "usage_usec\n"} {
		if got, err := parseCPU([]byte(text)); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
	for _, text := range []string{"oom_kill_disable 0\nunder_oom 0\noom_kill 7\n", "low 0\noom 9\noom_kill 7\noom_group_kill 8\n"} {
		if got, err := field([]byte(text), "oom_kill"); err != nil || got != 7 {
			t.Errorf("%q has %d, %v", text, got, err)
		}
	}
}
