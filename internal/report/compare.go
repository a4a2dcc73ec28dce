package report

import (
	"fmt"
	"maps"
	"strings"

	"github.com/gavel-oj/gavel/gavelapi"
)

// Bounds of numbers that workers report: far above what any limit allows, so
// that what is beyond them was never measured.
const (
	maxReportedUS    = int64(7 * 24 * 3600 * 1e6) // a week
	maxReportedBytes = int64(1) << 50
	maxReportedExit  = 1 << 30
)

func within(limit int64, numbers ...int64) bool {
	for _, n := range numbers {
		if n < 0 || n > limit {
			return false
		}
	}
	return true
}

// contradicts says where a report of a judging contradicts its package, or
// holds numbers that nothing can have measured; "" when it does neither.
func contradicts(r *gavelapi.Report, tests []string) string {
	if !within(maxReportedUS, r.CPUUS, r.WallUS, r.Compile.CPUUS, r.Compile.WallUS) || !within(maxReportedBytes, r.MemoryBytes) {
		return "its times or sizes are negative or beyond reason"
	}
	for stage, us := range r.Provenance.Stages {
		if !within(maxReportedUS, us) {
			return fmt.Sprintf("the time of its stage %.40q is negative or beyond reason", stage)
		}
	}
	if r.Verdict == "CE" {
		if len(r.Tests) > 0 {
			return "it is CE but has results of tests"
		}
		return ""
	}
	if len(r.Tests) != len(tests) {
		return fmt.Sprintf("it has results of %d tests, its package has %d", len(r.Tests), len(tests))
	}
	for i := range r.Tests {
		t := &r.Tests[i]
		switch {
		case t.Name != tests[i]:
			return fmt.Sprintf("its test %d is %.60q, in its package %q", i+1, t.Name, tests[i])
		case !within(maxReportedUS, t.CPUUS, t.WallUS) || !within(maxReportedBytes, t.MemoryBytes, t.OutputBytes):
			return fmt.Sprintf("test %q has times or sizes that are negative or beyond reason", t.Name)
		case t.ExitCode < 0 || t.ExitCode > maxReportedExit || t.Signal < 0 || t.Signal > maxReportedExit:
			return fmt.Sprintf("test %q has an exit code or signal that no program can have", t.Name)
		case t.Verdict == gavelapi.SkippedTest && (t.CPUUS != 0 || t.WallUS != 0 || t.MemoryBytes != 0):
			return fmt.Sprintf("test %q was skipped but has measurements", t.Name)
		}
		for _, run := range t.Attempts {
			if !within(maxReportedUS, run.CPUUS, run.WallUS) {
				return fmt.Sprintf("test %q has times that are negative or beyond reason", t.Name)
			}
		}
	}
	return ""
}

// SaneProgress says whether progress can be shown; tests is the package's
// number, or -1 when it is not known here.
func SaneProgress(p *gavelapi.Progress, tests int) bool {
	return p.TestsDone >= 0 && p.TestsTotal >= 0 && p.TestsDone <= p.TestsTotal && p.TestsTotal <= maxTests &&
		(tests < 0 || p.TestsTotal == 0 || p.TestsTotal == tests)
}

// Compare turns a tidy report of a judging that contradicts its package, whose
// tests are given in order, into a fault of its host, and returns what
// contradicts; "" when nothing does.
func Compare(r *gavelapi.Report, tests []string) string {
	why := contradicts(r, tests)
	if why != "" {
		why = "the worker's report contradicts its package: " + why
		toHostFault(r, why)
	}
	return why
}

// SelfContradiction is why Tidy made a fault of a report, or "".
func SelfContradiction(r *gavelapi.Report) string {
	if f := r.Fault; f != nil && strings.HasPrefix(f.Message, selfContradiction) {
		return f.Message
	}
	return ""
}

// toHostFault keeps of a report what its operator needs to find the cause.
func toHostFault(r *gavelapi.Report, message string) {
	r.Verdict, r.Tests, r.Outputs = "", nil, nil
	r.Fault = &gavelapi.Fault{Blame: gavelapi.BlameHost, Message: message}
	dropNonsense(r)
}

// dropNonsense clears numbers beside a fault that nothing can have measured.
func dropNonsense(r *gavelapi.Report) {
	for _, us := range []*int64{&r.CPUUS, &r.WallUS, &r.Compile.CPUUS, &r.Compile.WallUS} {
		if !within(maxReportedUS, *us) {
			*us = 0
		}
	}
	maps.DeleteFunc(r.Provenance.Stages, func(_ string, us int64) bool { return !within(maxReportedUS, us) })
}
