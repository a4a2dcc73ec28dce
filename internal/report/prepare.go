package report

import (
	"fmt"

	"github.com/gavel-oj/gavel/gavelapi"
)

// KindPrepare is the kind of the leases that prepare packages.
const KindPrepare = "prepare"

// prepareContradiction is contradiction for the report of a step of preparing a
// package.
func prepareContradiction(r *gavelapi.Report) string {
	p := r.Prepare
	switch {
	case p == nil || r.Verdict != "" || r.Run != nil:
		return "the lease is a step of preparing a package, and it has no findings of one"
	case len(p.Findings) == 0:
		return "it has no findings"
	case p.Verdict != "" && !verdicts[p.Verdict]:
		return "its submission has no known verdict"
	case p.Verdict != "" && len(p.Findings) != 1:
		return fmt.Sprintf("it has %d findings of one submission", len(p.Findings))
	}
	for i, f := range p.Findings {
		if f.Outcome != gavelapi.FindingOK && f.Outcome != gavelapi.FindingFailed {
			return fmt.Sprintf("finding %d has no known outcome", i+1)
		}
		if !within(maxReportedUS, f.TookUS) {
			return fmt.Sprintf("the time of finding %d is negative or beyond reason", i+1)
		}
	}
	return ""
}

// tidyFindings makes findings storable and bounds them together. Of too many,
// those that failed stay.
func tidyFindings(p *gavelapi.PrepareReport) *gavelapi.PrepareReport {
	out := gavelapi.PrepareReport{Verdict: p.Verdict, Findings: make([]gavelapi.Finding, 0, min(len(p.Findings), maxFindings))}
	left := maxAllDetails
	add := func(f gavelapi.Finding) {
		if len(out.Findings) == maxFindings {
			return
		}
		f.Step, _ = Clean(f.Step, maxName)
		f.What, _ = Clean(f.What, maxName)
		f.Detail, _ = Clean(f.Detail, min(maxMessage, left))
		left -= len(f.Detail)
		out.Findings = append(out.Findings, f)
	}
	if len(p.Findings) > maxFindings {
		for _, f := range p.Findings {
			if f.Outcome == gavelapi.FindingFailed {
				add(f)
			}
		}
	}
	if len(out.Findings) == 0 {
		for _, f := range p.Findings {
			add(f)
		}
	}
	return &out
}
