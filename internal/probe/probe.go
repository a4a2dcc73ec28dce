// Package probe has the known answers: for each language a program that must
// get AC, one that must get WA, TLE and CE, with the bounds of their times.
// The arbiter makes a worker judge them like any submission and compares the
// verdict; the worker is not told what is expected, and since every probe has
// a number of its own in its source, no earlier compile answers for it.
//
// One program serves all four. It reads a number and takes so many steps that
// depend on each other: with the right answer it is AC, and its CPU time is
// the measure of the machine's speed; beside a wrong answer it is WA; with a
// number that no machine reaches in time it is TLE; and with a line that no
// compiler takes it is CE.
package probe

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/problem"
)

// The programs, named by the verdict that they must get.
const (
	AC  = "AC"
	WA  = "WA"
	TLE = "TLE"
	CE  = "CE"
)

// TimeBound is how long a probe may take from its grant to its answer.
const TimeBound = 90 * time.Second

//go:embed data/*.txt
var data embed.FS

// family is a group of languages with the same program.
type family struct {
	file  string
	steps int64 // that take about a tenth of a second
}

var families = map[string]family{
	"bash":       {"bash", 30_000},
	"c":          {"c", 20_000_000},
	"cpp17":      {"cpp", 20_000_000},
	"cpp20":      {"cpp", 20_000_000},
	"cpp23":      {"cpp", 20_000_000},
	"csharp":     {"csharp", 20_000_000},
	"go":         {"go", 20_000_000},
	"haskell":    {"haskell", 20_000_000},
	"java":       {"java", 20_000_000},
	"javascript": {"javascript", 5_000_000},
	"kotlin":     {"kotlin", 20_000_000},
	"lua":        {"lua", 2_000_000},
	"pascal":     {"pascal", 20_000_000},
	"php":        {"php", 2_000_000},
	"pypy3":      {"python", 5_000_000},
	"python3":    {"python", 500_000},
	"ruby":       {"ruby", 500_000},
	"rust":       {"rust", 20_000_000},
}

// fewSteps are those of programs whose time says nothing; tooMany are not done
// within any limit and fit a signed 32-bit integer.
const (
	fewSteps = 1000
	tooMany  = 2_000_000_000
)

// The limits of a probe, before the language's rule.
const (
	cpuMS       = 10_000 // of AC, WA and CE: far more than a slow machine needs
	tleCPUMS    = 500
	memoryBytes = 512 << 20
)

// Problem is the name that leases of probes carry.
const Problem = "known-answers"

// Package is a problem package of probes.
type Package struct {
	Manifest *problem.Manifest
	Files    fs.FS
	Digest   string
}

// Probe is one program to be judged.
type Probe struct {
	Source  []byte
	Package *Package
}

// Make is the probe of a language. nonce tells it from every other one. ok is
// false when no answer is known in that language.
func Make(language, program, nonce string) (p Probe, ok bool) {
	f, ok := families[language]
	if !ok {
		return Probe{}, false
	}
	text, err := data.ReadFile("data/" + f.file + ".txt")
	if err != nil {
		panic("probe: " + err.Error()) // the table names a file that is not embedded
	}
	broken := ""
	if program == CE {
		broken = `((( "`
	}
	source := strings.NewReplacer("@@\n", broken+"\n", "$$", nonce).Replace(string(text))
	return Probe{Source: []byte(source), Package: packageFor(f, program)}, true
}

// Quick says whether a language's probe is a short job: a worker's first.
func Quick(language string) bool {
	switch language {
	case "c", "cpp17", "cpp20", "cpp23", "python3", "bash", "lua", "pascal", "php", "ruby", "javascript":
		return true
	}
	return false
}

var (
	packagesMu sync.Mutex
	packages   = map[string]*Package{}
)

func packageFor(f family, program string) *Package {
	steps, limit := int64(fewSteps), int64(cpuMS)
	switch program {
	case AC:
		steps = f.steps
	case TLE:
		steps, limit = tooMany, tleCPUMS
	}
	name := fmt.Sprintf("%s-%s-%d", Problem, strings.ToLower(program), steps)
	packagesMu.Lock()
	defer packagesMu.Unlock()
	p := packages[name]
	if p == nil {
		p = makePackage(name, steps, limit, program == WA)
		packages[name] = p
	}
	return p
}

func makePackage(name string, steps, cpuMS int64, wrong bool) *Package {
	want := "0" // nobody gets that far
	if steps != tooMany {
		want = strconv.FormatInt(answer(steps, wrong), 10)
	}
	files := memory{
		"data/secret/1.in":  strconv.FormatInt(steps, 10) + "\n",
		"data/secret/1.ans": want + "\n",
	}
	m := &problem.Manifest{
		Schema: 1, Name: name, Titles: map[string]string{"en": "Known answers"}, Format: "gavel-probe",
		Limits: problem.Limits{
			CPUMS: cpuMS, MemoryBytes: memoryBytes, OutputBytes: 1 << 20, CodeBytes: 64 << 10, Processes: 64,
			ValidationCPUMS: 10_000, ValidationMemoryBytes: memoryBytes, ValidationOutputBytes: 1 << 20,
		},
		Checker: problem.Checker{Kind: problem.CheckerTokens},
		Tests:   []problem.Test{{Name: "secret/1", Input: "data/secret/1.in", Answer: "data/secret/1.ans"}},
	}
	for _, path := range []string{"data/secret/1.ans", "data/secret/1.in"} {
		sum := sha256.Sum256([]byte(files[path]))
		m.Files = append(m.Files, problem.File{Path: path, SizeBytes: int64(len(files[path])), SHA256: hex.EncodeToString(sum[:])})
	}
	return &Package{Manifest: m, Files: files, Digest: problem.Digest(m)}
}

// answer is what the programs print.
func answer(steps int64, wrong bool) int64 {
	x := int64(1)
	for range steps {
		x = (x*1103 + 12345) % 1000003
	}
	if wrong {
		x++
	}
	return x
}

// Check compares a report with what is known. limits are those of the lease,
// took the time from the grant to the answer. why is "" when all is as it
// should be.
func Check(program string, r *gavelapi.Report, limits gavelapi.Limits, took time.Duration) (why string) {
	switch {
	case r.Fault != nil:
		return fmt.Sprintf("fault of the %s instead of %s: %s", r.Fault.Blame, program, r.Fault.Message)
	case r.Verdict != program:
		why = fmt.Sprintf("got %s, want %s", r.Verdict, program)
		if detail := detail(r); detail != "" {
			why += " (" + detail + ")"
		}
		return why
	case took > TimeBound:
		return fmt.Sprintf("%s took %v, at most %v are allowed", program, took.Round(time.Millisecond), TimeBound)
	}
	cpu := time.Duration(r.CPUUS) * time.Microsecond
	limit := time.Duration(limits.CPUUS) * time.Microsecond
	switch program {
	case CE:
		if r.Compile.Reason != "" {
			return "the compiler was stopped by its " + r.Compile.Reason + " limit"
		}
	case TLE:
		// Stopped at its limit, not before and not long after.
		if wall := time.Duration(r.WallUS) * time.Microsecond; cpu < limit*8/10 && wall < time.Duration(limits.WallUS)*time.Microsecond*8/10 {
			return fmt.Sprintf("TLE after %v of CPU, the limit is %v", cpu, limit)
		}
		if cpu > 3*limit+time.Second {
			return fmt.Sprintf("stopped after %v of CPU, the limit is %v", cpu, limit)
		}
	case AC:
		if cpu < 100*time.Microsecond || cpu > limit {
			return fmt.Sprintf("AC in %v of CPU, which cannot be", cpu)
		}
	}
	return ""
}

// detail is what a report says of its reasons, for people.
func detail(r *gavelapi.Report) string {
	if r.Verdict == CE {
		line, _, _ := strings.Cut(strings.TrimSpace(r.Compile.Log), "\n")
		return line
	}
	for _, t := range r.Tests {
		if t.Verdict != AC {
			return strings.TrimSpace(fmt.Sprintf("%s, exit code %d, signal %d %s", t.Reason, t.ExitCode, t.Signal, t.Message))
		}
	}
	return ""
}
