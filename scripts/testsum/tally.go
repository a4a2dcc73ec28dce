package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"
)

// event is one line of go test -json (see go doc test2json, go help buildjson).
type event struct {
	Action      string
	Package     string
	ImportPath  string // of build events
	Test        string
	Output      string
	Elapsed     float64
	FailedBuild string
}

// tally counts results as they arrive and prints one line per package.
type tally struct {
	out    io.Writer
	module string

	packages map[string]*pkg
	builds   map[string]string // output of the compiler by import path

	passed, failed, skipped int
	failures                []string // names for the end
	skips                   []*skip
}

// skip is one reason and the tests that gave it.
type skip struct {
	reason string
	tests  []string
}

type pkg struct {
	tests  map[string]*test
	order  []*test
	output strings.Builder
	cached bool
}

type test struct {
	name   string
	action string // pass, fail, skip, or empty while it runs
	output strings.Builder
	parent *test
	leaf   bool
	// childFailed: the failure is explained, and counted, further down.
	childFailed bool
}

func newTally(out io.Writer, module string) *tally {
	return &tally{out: out, module: module, packages: map[string]*pkg{}, builds: map[string]string{}}
}

func (s *tally) add(e event) {
	if e.Action == "build-output" {
		s.builds[e.ImportPath] += e.Output
		return
	}
	if e.Package == "" {
		return
	}
	p := s.packages[e.Package]
	if p == nil {
		p = &pkg{tests: map[string]*test{}}
		s.packages[e.Package] = p
	}
	if e.Test == "" {
		switch e.Action {
		case "output":
			p.output.WriteString(e.Output)
			p.cached = p.cached || strings.HasSuffix(e.Output, "\t(cached)\n")
		case "pass", "fail", "skip":
			s.finishPackage(p, e)
			delete(s.packages, e.Package)
		}
		return
	}
	t := p.test(e.Test)
	switch e.Action {
	case "output":
		if !strings.HasPrefix(e.Output, "=== ") {
			t.output.WriteString(e.Output)
		}
	case "pass", "fail", "skip":
		t.action = e.Action
	}
}

func (p *pkg) test(name string) *test {
	if t := p.tests[name]; t != nil {
		return t
	}
	t := &test{name: name, leaf: true}
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		// A subtest's own name may hold slashes: its parent is the longest prefix that is a test.
		for ; i >= 0 && t.parent == nil; i = strings.LastIndexByte(name[:i], '/') {
			t.parent = p.tests[name[:i]]
		}
		if t.parent != nil {
			t.parent.leaf = false
		}
	}
	p.tests[name] = t
	p.order = append(p.order, t)
	return t
}

// finishPackage counts a package's tests, prints its line, and its failures in full.
func (s *tally) finishPackage(p *pkg, e event) {
	name := s.short(e.Package)
	for _, t := range p.order {
		if t.action == "" && e.Action == "fail" {
			t.action = "fail" // it was running when the process died
		}
		if t.action == "fail" && t.parent != nil {
			t.parent.childFailed = true
		}
	}
	var passed, failed, skipped int
	for _, t := range p.order {
		switch {
		case t.action == "fail" && !t.childFailed:
			failed++
			s.failures = append(s.failures, name+" "+t.name)
		case !t.leaf:
		case t.action == "pass":
			passed++
		case t.action == "skip":
			skipped++
			s.skip(skipReason(t.output.String()), name+" "+t.name)
		}
	}
	if e.Action == "fail" && failed == 0 {
		failed = 1
		what := "outside its tests"
		if e.FailedBuild != "" {
			what = "does not build"
		}
		s.failures = append(s.failures, name+" ("+what+")")
	}
	s.passed, s.failed, s.skipped = s.passed+passed, s.failed+failed, s.skipped+skipped

	if e.Action == "fail" {
		fmt.Fprintf(s.out, "FAIL %7.1fs  %-32s %d passed, %d failed, %d skipped\n", e.Elapsed, name, passed, failed, skipped)
		s.printFailure(p, e)
		return
	}
	if passed+skipped == 0 {
		return // no tests in it: nothing to say
	}
	note := ""
	if skipped > 0 {
		note = fmt.Sprintf(", %d skipped", skipped)
	}
	if p.cached {
		note += " (cached)"
	}
	fmt.Fprintf(s.out, "ok   %7.1fs  %-32s %d passed%s\n", e.Elapsed, name, passed, note)
}

func (s *tally) printFailure(p *pkg, e event) {
	if e.FailedBuild != "" {
		fmt.Fprint(s.out, indent(s.builds[e.FailedBuild]))
		s.builds[e.FailedBuild] = "(the compiler's messages are above)\n" // several packages may fail for one
	}
	for _, t := range p.order {
		if t.action == "fail" {
			fmt.Fprint(s.out, indent(t.output.String()))
		}
	}
	fmt.Fprint(s.out, indent(p.output.String()))
}

// failRun counts a run of go test that failed without naming a package.
func (s *tally) failRun(why string) {
	s.failed++
	s.failures = append(s.failures, "go test itself")
	fmt.Fprint(s.out, indent(why))
}

func (s *tally) skip(reason, test string) {
	for _, k := range s.skips {
		if k.reason == reason {
			k.tests = append(k.tests, test)
			return
		}
	}
	s.skips = append(s.skips, &skip{reason, []string{test}})
}

// finish prints the summary and reports whether all is well.
func (s *tally) finish(interrupted bool) bool {
	fmt.Fprintln(s.out)
	for _, k := range s.skips {
		fmt.Fprintf(s.out, "%s (%d: %s)\n", k.reason, len(k.tests), firstOf(k.tests))
	}
	for _, f := range s.failures {
		fmt.Fprintln(s.out, "FAILED", f)
	}
	ran := s.passed+s.failed > 0
	switch {
	case interrupted:
		fmt.Fprintln(s.out, "interrupted: the counts are of what had finished")
	case !ran:
		fmt.Fprintln(s.out, "no test ran")
	}
	fmt.Fprintf(s.out, "%d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skipped)
	return ran && s.failed == 0
}

func (s *tally) short(path string) string {
	if path == s.module {
		return "."
	}
	return strings.TrimPrefix(path, s.module+"/")
}

var location = regexp.MustCompile(`(?m)^\s*[\w.-]+\.go:\d+: `)

// skipReason finds what a test said when it skipped: the line of
// testkit.Missing where there is one, else the last thing it logged.
func skipReason(output string) string {
	reason := ""
	for line := range strings.Lines(output) {
		trimmed := strings.TrimSpace(location.ReplaceAllString(line, ""))
		if strings.HasPrefix(trimmed, "SKIPPED need=") {
			return trimmed
		}
		if trimmed != "" && !strings.HasPrefix(trimmed, "--- SKIP") {
			reason = trimmed
		}
	}
	if reason == "" {
		reason = "no reason given"
	}
	return "SKIPPED: " + reason
}

func firstOf(tests []string) string {
	const most = 3
	if len(tests) <= most {
		return strings.Join(tests, ", ")
	}
	return strings.Join(tests[:most], ", ") + ", …"
}

func indent(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString("    " + line)
	}
	if s != "" && !strings.HasSuffix(s, "\n") {
		b.WriteByte('\n')
	}
	return b.String()
}
