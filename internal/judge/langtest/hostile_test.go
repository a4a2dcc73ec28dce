package langtest_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/sandbox/boxtest"
	"github.com/gavel-oj/gavel/internal/sandbox/umltest"
	"github.com/gavel-oj/gavel/internal/verdict"
)

var (
	hostileMatch = flag.String("hostile.match", "", "pattern of the programs to judge, as language/name; all when empty")
	hostilePace  = flag.Int("hostile.pace", 1, "how many times slower than usual this machine is")
)

// hostileProgram is one file below testdata/hostile. Its name begins with the
// verdict that it must get; comments in its first lines say the rest.
type hostileProgram struct {
	path, lang, name string
	want             verdict.Verdict
	source           []byte
	notes            map[string]string
}

// hostileNote is a comment such as "# abuse: 6 13" in any language's form.
var hostileNote = regexp.MustCompile(`(?m)^(?:#|//|--)\s*(abuse|wall|reason|signal|exit|compile-cpu|log): (.+)$`)

func hostilePrograms(t *testing.T) (all []hostileProgram) {
	t.Helper()
	files, err := filepath.Glob("testdata/hostile/*/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		p := hostileProgram{path: path, lang: filepath.Base(filepath.Dir(path)), source: source, notes: map[string]string{}}
		p.name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		word, _, _ := strings.Cut(p.name, "-")
		p.want = verdict.Verdict(word)
		for _, m := range hostileNote.FindAllSubmatch(source, -1) {
			p.notes[string(m[1])] = string(m[2])
		}
		if p.notes["abuse"] == "" {
			t.Errorf("%s does not say which abuse it is", path)
		}
		all = append(all, p)
	}
	return all
}

// hostileLimits are small: what exceeds them is to be over soon.
var hostileLimits = problem.Limits{
	CPUMS: 500, MemoryBytes: 64 << 20, OutputBytes: 1 << 20, CodeBytes: 64 << 10, Processes: 1,
}

// TestHostilePrograms judges each program of the corpus on a package of two
// equal tests whose answer is "held": a program that tries something says that
// word when it got nothing, and runs twice so that it may look for what its
// first run left. A neighbour computes in another box meanwhile, and after each
// the engine judges an innocent one; both must notice nothing. In the end the
// machine is as it was.
func TestHostilePrograms(t *testing.T) {
	e := engine(t)
	pkg := writtenPackage(t, [][2]string{{"40 2\n", "held\n"}, {"40 2\n", "held\n"}})
	chosen := regexp.MustCompile(*hostileMatch)
	canary := newCanary(t)
	beside := newNeighbour(t)
	t.Run("programs", func(t *testing.T) {
		for _, p := range hostilePrograms(t) {
			if !chosen.MatchString(p.lang + "/" + p.name) {
				continue
			}
			t.Run(p.lang+"/"+p.name, func(t *testing.T) {
				t.Parallel() // as many at once as the engine has slots
				l, ok := machine.registry.Get(p.lang)
				if !ok {
					t.Fatalf("there is no language %s", p.lang)
				}
				installed(t, l)
				done := beside.run(t)
				p.judge(t, e, l, pkg)
				done()
				judgeInnocent(t, e, pkg)
			})
		}
	})
	canary.check(t)
}

func (p *hostileProgram) judge(t *testing.T, e *judge.Engine, l *language.Language, pkg *problem.Package) {
	limits, err := language.Effective(hostileLimits, l)
	if err != nil {
		t.Fatal(err)
	}
	limits.Wall = time.Duration(*hostilePace) * time.Minute // the machine may be busy
	if s := p.notes["wall"]; s != "" {
		if limits.Wall, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
		limits.Wall *= time.Duration(min(*hostilePace, 5))
		limits.CPU = min(limits.CPU, limits.Wall)
	}
	own := *pkg
	if s := p.notes["compile-cpu"]; s != "" {
		if own.Manifest.Limits.CompileCPUMS, err = strconv.ParseInt(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	own.Manifest.Limits.CompileCPUMS = compileCPU(own.Manifest.Limits.CompileCPUMS)
	switch p.want {
	case verdict.TLE:
		limits.CPU *= time.Duration(min(*hostilePace, 4)) // it will take all of it
	case verdict.MLE:
		limits.CPU *= 20 // as in submit: only memory is in question
	default:
		limits.CPU *= time.Duration(*hostilePace)
	}
	limits.Wall = max(limits.Wall, limits.CPU)
	r, err := e.Judge(t.Context(), judge.Task{
		Source: p.source, SourceName: "main", Language: l.ID, Package: &own, Limits: judge.Limits(limits), Stop: judge.StopFirst,
		Wrong: func(_ int, output io.ReadSeeker) {
			text, _ := io.ReadAll(io.LimitReader(output, 2000))
			t.Logf("output: %q", text)
		},
	}, func(judge.Progress) {})
	if err != nil {
		t.Fatalf("a fault: %v", err)
	}
	t.Logf("compile: %v, %q", r.Compile.CPU, cut(r.Compile.Log))
	for _, test := range r.Tests {
		t.Logf("%s %s, cpu %v, wall %v, memory %d KiB, output %d, exit code %d, signal %d, %s", test.Verdict, test.Reason, test.CPU, test.Wall, test.MemoryBytes>>10, test.OutputBytes, test.ExitCode, test.Signal, test.Message)
	}
	if r.Verdict != p.want {
		t.Fatalf("verdict %s, want %s", r.Verdict, p.want)
	}
	if want := p.notes["log"]; !strings.Contains(r.Compile.Log, want) {
		t.Errorf("the compile log does not say %q", want)
	}
	if len(r.Compile.Log) > 65<<10 || strings.ContainsRune(r.Compile.Log, 0) {
		t.Errorf("a compile log of %d bytes, or with NUL", len(r.Compile.Log))
	}
	if r.Verdict == verdict.CE {
		return
	}
	first := r.Tests[0]
	if want := p.notes["reason"]; want != "" && string(first.Reason) != want && *hostilePace == 1 {
		t.Errorf("reason %s, want %s", first.Reason, want)
	}
	for note, got := range map[string]int{"signal": first.Signal, "exit": first.ExitCode} {
		if want := strings.Fields(p.notes[note]); len(want) > 0 && !slices.Contains(want, strconv.Itoa(got)) {
			t.Errorf("%s %d, want %s", note, got, p.notes[note])
		}
	}
}

// compileCPU is ms, or the language's own when 0, on this machine.
func compileCPU(ms int64) int64 {
	const slow = 100_000
	switch {
	case *hostilePace == 1:
		return ms
	case ms == 0:
		return slow
	}
	return ms * int64(min(*hostilePace, 4))
}

// disturbed is a CPU time that a program of a few milliseconds takes only when
// others' time is counted with it.
func disturbed() time.Duration { return time.Duration(*hostilePace) * 200 * time.Millisecond }

const innocentSource = "#include <stdio.h>\nint main(void) { int a, b; scanf(\"%d %d\", &a, &b); puts(a + b == 42 ? \"held\" : \"\"); }\n"

// judgeInnocent finds out whether the boxes are as good as new.
func judgeInnocent(t *testing.T, e *judge.Engine, pkg *problem.Package) {
	t.Helper()
	c, _ := machine.registry.Get("c")
	limits, err := language.Effective(hostileLimits, c)
	if err != nil {
		t.Fatal(err)
	}
	limits.Wall = 20 * time.Minute
	limits.CPU *= time.Duration(*hostilePace)
	own := *pkg
	own.Manifest.Limits.CompileCPUMS = compileCPU(0)
	r, err := e.Judge(t.Context(), judge.Task{
		Source: []byte(innocentSource), SourceName: "innocent.c", Language: "c", Package: &own, Limits: judge.Limits(limits), Stop: judge.StopFirst,
	}, func(judge.Progress) {})
	if err != nil {
		t.Fatalf("afterwards a fault: %v", err)
	}
	if r.Verdict != verdict.AC {
		t.Fatalf("afterwards an innocent program is %s: %+v\n%s", r.Verdict, r.Tests, r.Compile.Log)
	}
	for _, test := range r.Tests {
		if test.MemoryBytes > 4<<20 || test.CPU > disturbed() || test.OutputBytes != 5 {
			t.Errorf("afterwards an innocent program took %d KiB and %v, and wrote %d bytes", test.MemoryBytes>>10, test.CPU, test.OutputBytes)
		}
	}
}

// TestHostileNamesOfSources: what a submitter calls a file is a label.
func TestHostileNamesOfSources(t *testing.T) {
	e := engine(t)
	pkg := writtenPackage(t, [][2]string{{"40 2\n", "held\n"}})
	for _, name := range []string{
		"-o/etc/passwd", "--help", "@/etc/passwd", "$(reboot).c", "`reboot`.c", "; reboot", "..", "../../etc/passwd", "/etc/passwd",
		"a b.c", "#.c", "\\.c", "new\nline.c", "\x00.c", "\xff\xfe.c", "\u202ec.c", strings.Repeat("n", 5000), "",
	} {
		t.Run(fmt.Sprintf("%.20q", name), func(t *testing.T) {
			r, err := e.Judge(context.WithoutCancel(t.Context()), judge.Task{
				Source: []byte(innocentSource), SourceName: name, Language: "c", Package: pkg, Stop: judge.StopFirst,
				Limits: judge.Limits{CPU: time.Second, Wall: time.Minute, MemoryBytes: 64 << 20, OutputBytes: 1 << 20, Processes: 1},
			}, func(judge.Progress) {})
			if err != nil || r.Verdict != verdict.AC {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

func cut(s string) string { return s[:min(len(s), 300)] }

// TestHostileProgramsOnCgroupV2UnderUML is the part of the corpus in which
// cgroups matter, on a version 2 hierarchy. The machine has one CPU, so verdicts
// of languages are looked at beside it, when the canaries here are done.
func TestHostileProgramsOnCgroupV2UnderUML(t *testing.T) {
	t.Parallel()
	umltest.Machine{
		Mounts: umltest.V2, Tests: "^TestHostilePrograms$", MinPassed: 14,
		Args:      []string{"-hostile.pace=20", "'-hostile.match=^(bash/(TLE-[frz]|OLE|RE|AC-kill)|lua/MLE|c/(MLE|RE-sig|TLE)|python3/(RE-fork|MLE-sh))'"},
		MemoryMiB: 2048, AtMost: 12 * time.Minute,
	}.Run(t)
}

// TestHostileProgramsAndTheirPageAgree holds the reference page, the programs
// of both suites and the tests it names together.
func TestHostileProgramsAndTheirPageAgree(t *testing.T) {
	const cases = 79 // of the design's list
	root := filepath.Join("..", "..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs/reference/hostile-programs.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string][]string{} // by case
	shown := map[string]bool{}      // names anywhere on the page
	for _, m := range regexp.MustCompile(`(?m)^\| (X?[0-9]+) \|.*\| ([^|]*) \|$`).FindAllStringSubmatch(string(page), -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(m[2], -1) {
			listed[m[1]] = append(listed[m[1]], name[1])
		}
		if len(listed[m[1]]) == 0 {
			t.Errorf("case %s has no test", m[1])
		}
	}
	for i := 1; i <= cases; i++ {
		if listed[strconv.Itoa(i)] == nil {
			t.Errorf("case %d is not on the page", i)
		}
	}
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(string(page), -1) {
		shown[m[1]] = true
	}

	known := map[string]bool{}
	programs := hostilePrograms(t)
	for _, name := range boxtest.Names() {
		known[name] = true
	}
	if n := len(known) + len(programs); n < 80 {
		t.Errorf("%d hostile programs, want 80 at least", n)
	}
	for _, p := range programs {
		name := p.lang + "/" + p.name
		known[name] = true
		for id := range strings.FieldsSeq(p.notes["abuse"]) {
			if (id[0] == 'X' || id[0] <= '9') && !slices.Contains(listed[id], name) {
				t.Errorf("%s says that it is case %s, the page does not", name, id)
			}
		}
	}
	for name := range known {
		if !shown[name] {
			t.Errorf("%s is not on the page", name)
		}
	}
	tests := testNames(t, filepath.Join(root, "internal"))
	for id, names := range listed {
		for _, name := range names {
			if !known[name] && !tests[name] {
				t.Errorf("case %s names %s, which does not exist", id, name)
			}
		}
	}
}

// testNames are the test functions in the files below dir.
func testNames(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range function.FindAllSubmatch(text, -1) {
			names[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
