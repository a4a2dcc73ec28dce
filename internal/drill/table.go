package drill

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Summary adds the results of a run up.
type Summary struct {
	OK, Failed, Skipped, Interrupted    int
	Jobs, Lost, Duplicated, Stale, Late int
	Calls, Histories                    int
	Unordered, Undecided                int
	Figures                             []Figure
}

// Summarize adds results up.
func Summarize(results []Result) Summary {
	var sum Summary
	for _, r := range results {
		switch r.Verdict {
		case OK:
			sum.OK++
		case Failed:
			sum.Failed++
		case Skipped:
			sum.Skipped++
		case Interrupted:
			sum.Interrupted++
		}
		sum.Jobs += r.Jobs
		sum.Lost += r.Lost
		sum.Duplicated += r.Duplicated
		sum.Stale += r.Stale
		sum.Late += r.Discarded
		sum.Calls += r.Calls
		sum.Histories += r.Histories
		sum.Unordered += r.Unordered
		sum.Undecided += r.Undecided
		for _, f := range r.Figures {
			f.Name = r.Number + " " + f.Name
			sum.Figures = append(sum.Figures, f)
		}
	}
	return sum
}

// Table writes the results for people: one line a scenario, then what was
// measured, then why something failed.
func Table(w io.Writer, results []Result) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "NO\tSCENARIO\tWHAT FIRED\tOTHERS WAITED\tJOBS\tLOST\tTWICE\tSTALE\tDISCARDED\tCALLS\tHISTORIES\tTIME\tVERDICT")
	for _, r := range results {
		waited := "-"
		if r.Bystanders > 0 {
			waited = fmt.Sprintf("%.0f ms", r.HoldUpMS)
		}
		if r.Verdict == Skipped {
			fmt.Fprintf(tw, "%s\t%s\t%s\t-\t-\t-\t-\t-\t-\t-\t-\t-\t%s\n", r.Number, r.Name, strings.Join(r.Why, "; "), r.Verdict)
			continue
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%.1f s\t%s\n", r.Number, r.Name, r.Fired, waited,
			r.Jobs, r.Lost, r.Duplicated, r.Stale, r.Discarded, r.Calls, r.Histories, float64(r.TookMS)/1000, r.Verdict)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	sum := Summarize(results)
	if len(sum.Figures) > 0 {
		fmt.Fprintln(w)
		fmt.Fprintln(tw, "MEASURED\tVALUE\tLIMIT")
		for _, f := range sum.Figures {
			limit := "-"
			if f.Limit > 0 {
				limit = fmt.Sprintf("%.4g %s", f.Limit, f.Unit)
			}
			fmt.Fprintf(tw, "%s\t%.4g %s\t%s\n", f.Name, f.Value, f.Unit, limit)
		}
		if err := tw.Flush(); err != nil {
			return err
		}
	}
	for _, r := range results {
		if r.Verdict != Failed {
			continue
		}
		fmt.Fprintf(w, "\n%s failed (seed %d):\n", r.Name, r.Seed)
		for _, why := range r.Why {
			fmt.Fprintln(w, "  "+strings.ReplaceAll(why, "\n", "\n  "))
		}
		if r.Dir != "" {
			fmt.Fprintln(w, "  its logs are in "+r.Dir)
		}
	}
	if sum.Interrupted > 0 {
		fmt.Fprintln(w, "\ninterrupted: the rest was not run")
	}
	_, err := fmt.Fprintf(w, "\n%d ok, %d failed, %d skipped; %d jobs: %d lost, %d recorded twice, %d stale; %d late reports discarded\n"+
		"%d calls about %d jobs: the answers about %d follow from no order of them, %d were not decided in time\n",
		sum.OK, sum.Failed, sum.Skipped, sum.Jobs, sum.Lost, sum.Duplicated, sum.Stale, sum.Late, sum.Calls, sum.Histories, sum.Unordered, sum.Undecided)
	return err
}

// SabotageTable writes what became of counter-tests: each must have failed.
func SabotageTable(w io.Writer, results []Result) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "NO\tSCENARIO\tSWITCHED OFF\tNOTICED BY\tTIME")
	for _, r := range results {
		noticed := "NOTHING: the scenario cannot fail"
		if r.Verdict == Failed && len(r.Why) > 0 {
			noticed, _, _ = strings.Cut(r.Why[0], "\n")
		}
		off := ""
		for _, s := range Find(r.Name) {
			off = s.Sabotage
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%v\n", r.Number, r.Name, off, noticed, time.Duration(r.TookMS)*time.Millisecond)
	}
	return tw.Flush()
}
