package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/judge/checker"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/problem"
)

// judged is what became of one source; with its JSON, -o json's.
type judged struct {
	Source      string                `json:"source"`
	Language    string                `json:"language"`
	Toolchain   string                `json:"toolchain,omitempty"`
	Verdict     string                `json:"verdict"`
	Expected    []string              `json:"expected,omitempty"` // of an example submission
	AsDeclared  *bool                 `json:"as_declared,omitempty"`
	CPUUS       int64                 `json:"cpu_us"` // the most of any test, as are the next
	WallUS      int64                 `json:"wall_us"`
	MemoryBytes int64                 `json:"memory_bytes"`
	Limits      gavelapi.Limits       `json:"limits"`
	Compile     gavelapi.CompileInfo  `json:"compile"`
	Tests       []gavelapi.TestResult `json:"tests"`
	Fault       *gavelapi.Fault       `json:"fault,omitempty"`
	Refused     *refused              `json:"refused,omitempty"` // then it has no verdict
	Difference  *Difference           `json:"difference,omitempty"`
	Outputs     []gavelapi.TestOutput `json:"outputs,omitempty"`

	sourceBytes int64
	sourceFiles int
}

// refused is why a source was not judged.
type refused struct {
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

// Difference is where the output of a test is not what the answer says.
type Difference struct {
	Test  string `json:"test"`
	Token int64  `json:"token"`
	Want  Place  `json:"want"`
	Got   Place  `json:"got"`
	// Checker says that a program of the package decides, so this difference
	// from the answer need not be why it is wrong.
	Checker bool `json:"checker,omitempty"`
}

// Place is a place in a text, with what is around it on its line in printable
// ASCII; here is empty at the end of the text.
type Place struct {
	Line   int64  `json:"line"`
	Column int64  `json:"column"`
	Before string `json:"before"`
	Here   string `json:"here"`
	After  string `json:"after"`
}

// judgedPackage is the document of -o json.
type judgedPackage struct {
	Problem string   `json:"problem"`
	Package string   `json:"package_digest"`
	Results []judged `json:"results"`
}

// differenceOn compares the output of a test with its answer; nil when that
// shows nothing.
func differenceOn(ctx context.Context, pkg *problem.Package, test int, output io.ReadSeeker) *Difference {
	t, c := &pkg.Manifest.Tests[test], pkg.Manifest.Checker
	options := c.Tokens
	if t.Tokens != nil {
		options = *t.Tokens
	}
	if c.Kind != problem.CheckerTokens {
		options = problem.TokenOptions{CaseSensitive: true}
	}
	tokens, err := checker.NewTokens(options)
	if err != nil {
		return nil
	}
	answer, err := os.Open(pkg.Path(t.Answer))
	if err != nil {
		return nil
	}
	defer answer.Close()
	d, err := tokens.Difference(ctx, answer, output)
	if err != nil || d == nil {
		return nil
	}
	return &Difference{Test: t.Name, Token: d.Token, Want: Place(d.Want), Got: Place(d.Got), Checker: c.Kind != problem.CheckerTokens}
}

func (j *judged) limits(l language.Limits) {
	j.Limits = gavelapi.Limits{
		CPUUS: l.CPU.Microseconds(), WallUS: l.Wall.Microseconds(),
		MemoryBytes: l.MemoryBytes, OutputBytes: l.OutputBytes, Processes: l.Processes,
	}
}

// fault is what is said when the system failed.
func (j *judged) fault(blame, message string) {
	j.Fault = &gavelapi.Fault{Blame: blame, Message: message}
	j.Tests = []gavelapi.TestResult{}
	j.declare("SE")
}

// refuse is what is said of a source that is none.
func (j *judged) refuse(c candidate) {
	j.Source, j.Tests = c.name, []gavelapi.TestResult{}
	j.Refused = &refused{Message: c.refused.Message, Hint: c.refused.Hint}
	if c.lang != nil {
		j.Language = c.lang.ID
	}
}

func (j *judged) declare(verdict string) {
	j.Verdict = verdict
	if j.Expected != nil {
		same := slices.Contains(j.Expected, verdict)
		j.AsDeclared = &same
	}
}

// take fills in an engine's report.
func (j *judged) take(r *judge.Report) {
	j.declare(string(r.Verdict))
	j.Toolchain = r.Toolchain
	j.Compile = gavelapi.CompileInfo{
		Log: r.Compile.Log, LogCut: r.Compile.LogCut, Reason: string(r.Compile.Fired),
		CPUUS: r.Compile.CPU.Microseconds(), WallUS: r.Compile.Wall.Microseconds(),
	}
	j.Tests = make([]gavelapi.TestResult, len(r.Tests))
	for i, t := range r.Tests {
		row := gavelapi.TestResult{
			Name: t.Name, Sample: t.Sample, Verdict: string(t.Verdict), Reason: string(t.Reason),
			CPUUS: t.CPU.Microseconds(), WallUS: t.Wall.Microseconds(), MemoryBytes: t.MemoryBytes, OutputBytes: t.OutputBytes,
			ExitCode: t.ExitCode, Signal: t.Signal, Message: t.Message,
		}
		for _, a := range t.Attempts {
			row.Attempts = append(row.Attempts, gavelapi.TestAttempt{CPUUS: a.CPU.Microseconds(), WallUS: a.Wall.Microseconds()})
		}
		j.Tests[i] = row
		if w := t.Wrote; w != nil {
			j.Outputs = append(j.Outputs, gavelapi.TestOutput{
				Test: t.Name, Stdout: string(w.Stdout), StdoutCut: w.StdoutCut, Stderr: string(w.Stderr), StderrCut: w.StderrCut,
			})
		}
		j.CPUUS, j.WallUS, j.MemoryBytes = max(j.CPUUS, row.CPUUS), max(j.WallUS, row.WallUS), max(j.MemoryBytes, row.MemoryBytes)
	}
}

// print shows the results and decides about the exit code.
func (cmd *JudgeCmd) print(app *App, pkg *problem.Package, results []judged) error {
	tabular := app.Output == "table" || app.Output == "wide"
	var err error
	if tabular && len(results) == 1 && results[0].Expected == nil {
		if f := results[0].Fault; f != nil {
			return failed(faultHint(f.Blame), "%s could not be judged: %s: %s", results[0].Source, f.Blame, f.Message)
		}
		err = app.printJudged(pkg, results[0])
	} else {
		err = app.printSummary(pkg, results)
	}
	if err != nil {
		return err
	}
	different, faults, refusals, wrong := 0, 0, 0, 0
	for _, r := range results {
		switch {
		case r.Refused != nil:
			refusals++
		case r.Fault != nil:
			faults++
		case r.AsDeclared != nil && !*r.AsDeclared:
			different++
		case r.Verdict != "AC":
			wrong++
		}
	}
	if tabular && cmd.Submissions {
		app.note("%d of %d verdicts are as declared", len(results)-different-faults, len(results))
	}
	switch {
	case faults > 0:
		return failed("the rows marked SE say why", "%d of %d could not be judged", faults, len(results))
	case refusals > 0:
		code := ExitPartly
		if refusals == len(results) {
			code = ExitUsage
		}
		return &Error{Code: code, Hint: "the rows marked refused say why", Message: fmt.Sprintf("%d of %d were not judged", refusals, len(results))}
	case different > 0:
		return &Error{Code: ExitFailed}
	case wrong > 0 && cmd.FailOn != "":
		return &Error{Code: ExitNotAccepted}
	}
	return nil
}

func faultHint(blame string) string {
	switch judge.Blame(blame) {
	case judge.BlamePackage, judge.BlameChecker:
		return "repair the package"
	case judge.BlameToolchain:
		return "install the language's compiler or interpreter"
	case judge.BlameHost:
	}
	return "gavel doctor --for worker looks for the cause"
}

// printJudged prints one result with all there is to say.
func (a *App) printJudged(pkg *problem.Package, j judged) error {
	w := bufio.NewWriter(a.Out)
	fmt.Fprintf(w, "%s  %s\n", clean(j.Source), a.style.paint(j.Verdict, verdictColor(j.Verdict), a.style.out))
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %s %s\n", a.style.paint(fmt.Sprintf("%-9s", name), dim, a.style.out), clean(fmt.Sprintf(format, args...)))
	}
	line("problem", "%s, package %s", pkg.Manifest.Name, digest(pkg.Digest))
	line("source", "%s, %s", j.Language, sizeOf(j.sourceFiles, j.sourceBytes))
	line("compiler", "%s; took %s ms", orDash(j.Toolchain), ms(j.Compile.WallUS))
	if len(j.Tests) > 0 {
		line("time", "%s ms cpu, %s ms wall; limit %s ms", ms(j.CPUUS), ms(j.WallUS), ms(j.Limits.CPUUS))
		line("memory", "%s MiB; limit %s MiB", mib(j.MemoryBytes), mib(j.Limits.MemoryBytes))
	}
	if j.Compile.Reason != "" {
		line("compiler", "stopped: %s limit", j.Compile.Reason)
	}
	if j.Compile.Log != "" && (j.Verdict == "CE" || a.Output == "wide") {
		fmt.Fprintln(w, "\ncompiler output:")
		for _, l := range cleanLines(j.Compile.Log) {
			fmt.Fprintln(w, "  "+l)
		}
		if j.Compile.LogCut {
			fmt.Fprintln(w, "  … (cut)")
		}
	}
	if len(j.Tests) > 0 {
		fmt.Fprintln(w)
		a.printTests(w, j.Tests)
	}
	if j.Difference != nil {
		a.printDifference(w, j.Difference)
	} else if len(j.Outputs) > 0 {
		const most = 10 // lines of each stream; -o json has all
		fmt.Fprintln(w)
		printOutput(w, j.Outputs[0], most)
	}
	return w.Flush()
}

func (a *App) printDifference(w io.Writer, d *Difference) {
	about := ""
	if d.Checker {
		about = " from the answer (the package's checker decides, and may mean another place)"
	}
	fmt.Fprintf(w, "\nfirst difference%s: %s, token %d\n", about, clean(d.Test), d.Token)
	for _, side := range []struct {
		name string
		p    Place
		c    color
	}{{"want", d.Want, green}, {"got", d.Got, red}} {
		place := fmt.Sprintf("  %-5s line %d, column %d: ", side.name, side.p.Line, side.p.Column)
		here := side.p.Here
		if here == "" {
			here = "(end)"
		}
		fmt.Fprintln(w, place+side.p.Before+a.style.paint(here, side.c, a.style.out)+side.p.After)
		fmt.Fprintln(w, strings.Repeat(" ", len(place)+len(side.p.Before))+strings.Repeat("^", len(here)))
	}
}

// printSummary prints a row for each result.
func (a *App) printSummary(pkg *problem.Package, results []judged) error {
	whole := judgedPackage{Problem: pkg.Manifest.Name, Package: pkg.Digest, Results: results}
	ran := func(j judged, s string) cell {
		if len(j.Tests) == 0 {
			return cell{}
		}
		return text(s)
	}
	cols := []column[judged]{
		{name: "SOURCE", flex: 16, cell: func(j judged) cell { return text(strings.TrimPrefix(j.Source, "submissions/")) }},
		{name: "LANGUAGE", cell: func(j judged) cell { return text(j.Language) }},
		{name: "VERDICT", cell: func(j judged) cell {
			if j.Refused != nil {
				return shade("refused", red)
			}
			return shade(j.Verdict, verdictColor(j.Verdict))
		}},
	}
	if slices.ContainsFunc(results, func(j judged) bool { return j.Expected != nil }) {
		cols = append(cols, column[judged]{name: "DECLARED", cell: func(j judged) cell {
			if *j.AsDeclared {
				return shade("✓ "+strings.Join(j.Expected, "|"), green)
			}
			return shade("✗ "+strings.Join(j.Expected, "|"), red)
		}})
	}
	cols = append(cols,
		column[judged]{name: "CPU ms", right: true, cell: func(j judged) cell { return ran(j, ms(j.CPUUS)) }},
		column[judged]{name: "WALL ms", right: true, wide: true, cell: func(j judged) cell { return ran(j, ms(j.WallUS)) }},
		column[judged]{name: "MiB", right: true, cell: func(j judged) cell { return ran(j, mib(j.MemoryBytes)) }},
		column[judged]{name: "TESTS", right: true, cell: func(j judged) cell { return ran(j, j.testsRun()) }},
		column[judged]{name: "WHY", flex: 10, cell: func(j judged) cell { return text(j.why()) }},
	)
	return printItems(a, results, whole, func(j judged) string { return j.Source }, cols)
}

// testsRun is how many tests ran of how many.
func (j *judged) testsRun() string {
	run := 0
	for _, t := range j.Tests {
		run += map[bool]int{true: 1}[t.Verdict != gavelapi.SkippedTest]
	}
	return fmt.Sprintf("%d/%d", run, len(j.Tests))
}

// why is the first reason against a source.
func (j *judged) why() string {
	switch {
	case j.Fault != nil:
		return j.Fault.Blame + ": " + j.Fault.Message
	case j.Refused != nil:
		return j.Refused.Message
	}
	if j.Verdict == "CE" {
		first, _, _ := strings.Cut(j.Compile.Log, "\n")
		return first
	}
	for _, t := range j.Tests {
		if t.Verdict != "AC" {
			return strings.TrimSuffix(t.Name+": "+why(t), ": ")
		}
	}
	return ""
}
