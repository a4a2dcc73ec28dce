package cli

import (
	"bufio"
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/language"
)

// SubmissionCmd is `gavel submission`.
type SubmissionCmd struct {
	List   SubmissionListCmd   `cmd:"" help:"List submissions, newest first."`
	Show   SubmissionShowCmd   `cmd:"" help:"Show one with its tests."`
	Watch  SubmissionWatchCmd  `cmd:"" help:"Wait for the verdict of one."`
	Source SubmissionSourceCmd `cmd:"" help:"Print the source of one, or write its files to a directory."`
	Output SubmissionOutputCmd `cmd:"" help:"Print the beginning of what one wrote in the tests that it failed."`
	Cancel SubmissionCancelCmd `cmd:"" help:"Cancel one that is not judged yet."`

	Explain SubmissionExplainCmd `cmd:"" help:"Say why one waits, worker by worker, or how it went."`
	Rejudge SubmissionRejudgeCmd `cmd:"" help:"Judge one again; the new verdict replaces the old one when it is there."`
}

// SubmissionListCmd is `gavel submission list`.
type SubmissionListCmd struct {
	Problem  string `short:"p" placeholder:"NAME" help:"Only of this problem."`
	User     string `placeholder:"NAME" help:"Only of this user."`
	Language string `short:"l" placeholder:"ID" help:"Only in this language."`
	State    string `placeholder:"STATE" enum:"pending,judging,done,system_error,cancelled," default:"" help:"Only in this state: pending, judging, done, system_error or cancelled."`
	Verdict  string `placeholder:"VERDICT" enum:"AC,WA,TLE,MLE,OLE,RE,CE,SE," default:"" help:"Only with this verdict."`
	pageLimit
}

// Run implements kong's command.
func (cmd *SubmissionListCmd) Run(app *App) error {
	c, err := app.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	filter := client.SubmissionFilter{Problem: cmd.Problem, User: cmd.User, Language: cmd.Language, State: cmd.State, Verdict: cmd.Verdict}
	var list gavelapi.SubmissionList
	list.Submissions, list.Next, err = pages(app, cmd.pageLimit, func(cursor string, limit int) ([]gavelapi.Submission, string, error) {
		page, err := c.SubmissionList(app.Ctx, filter, cursor, limit)
		if err != nil {
			return nil, "", err
		}
		return page.Submissions, page.Next, nil
	})
	if err != nil {
		return err
	}
	return app.printSubmissions(list.Submissions, list)
}

// SubmissionShowCmd is `gavel submission show`.
type SubmissionShowCmd struct {
	ID string `arg:"" help:"Number of the submission."`
}

// Run implements kong's command.
func (cmd *SubmissionShowCmd) Run(app *App) error {
	return withSubmission(app, cmd.ID, func(c *client.Client, id int64) error {
		sub, err := c.SubmissionGet(app.Ctx, id, 0)
		if err != nil {
			return err
		}
		return app.printSubmission(sub)
	})
}

// SubmissionWatchCmd is `gavel submission watch`.
type SubmissionWatchCmd struct {
	ID     string `arg:"" help:"Number of the submission."`
	FailOn string `enum:"wrong," default:"" placeholder:"wrong" help:"wrong: exit 8 unless the verdict is AC."`
}

// Run implements kong's command.
func (cmd *SubmissionWatchCmd) Run(app *App) error {
	return withSubmission(app, cmd.ID, func(c *client.Client, id int64) error { return app.follow(c, id, cmd.FailOn) })
}

// SubmissionCancelCmd is `gavel submission cancel`.
type SubmissionCancelCmd struct {
	ID     string `arg:"" help:"Number of the submission."`
	Reason string `placeholder:"TEXT" help:"Why; kept in the audit trail."`
}

// Run implements kong's command.
func (cmd *SubmissionCancelCmd) Run(app *App) error {
	return withSubmission(app, cmd.ID, func(c *client.Client, id int64) error {
		sub, err := c.SubmissionCancel(app.Ctx, id, cmd.Reason)
		if err != nil {
			return err
		}
		return app.printSubmissions([]gavelapi.Submission{*sub}, sub)
	})
}

func withSubmission(app *App, text string, do func(*client.Client, int64) error) error {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return usage("gavel submission list shows the numbers", "a submission is named by its number, and %q is none", text)
	}
	c, err := app.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	return do(c, id)
}

func submissionID(s gavelapi.Submission) string { return strconv.FormatInt(s.ID, 10) }

// printSubmissions prints rows; whole is the document for json.
func (a *App) printSubmissions(subs []gavelapi.Submission, whole any) error {
	type S = gavelapi.Submission
	judged := func(s S, text string) cell {
		if s.Verdict == "" || s.Verdict == "CE" || s.Verdict == "SE" {
			return cell{}
		}
		return cell{text: text}
	}
	return printItems(a, subs, whole, submissionID, []column[S]{
		{name: "ID", right: true, cell: func(s S) cell { return number(s.ID) }},
		{name: "PROBLEM", flex: 8, cell: func(s S) cell { return text(s.Problem) }},
		{name: "LANGUAGE", cell: func(s S) cell { return text(s.Language) }},
		{name: "USER", flex: 6, cell: func(s S) cell { return text(orDash(s.User)) }},
		{name: "STATE", cell: func(s S) cell { return shade(s.State, stateColor(s.State)) }},
		{name: "VERDICT", cell: func(s S) cell { return shade(orDash(s.Verdict), verdictColor(s.Verdict)) }},
		{name: "CPU ms", right: true, cell: func(s S) cell { return judged(s, ms(s.CPUUS)) }},
		{name: "MiB", right: true, cell: func(s S) cell { return judged(s, mib(s.MemoryBytes)) }},
		{name: "WORKER", wide: true, cell: func(s S) cell { return text(orDash(s.Worker)) }},
		{name: "BYTES", wide: true, right: true, cell: func(s S) cell { return number(s.SourceBytes) }},
		{name: "SUBMITTED (UTC)", wide: true, cell: func(s S) cell { return text(instant(s.CreatedAt)) }},
		{name: "PACKAGE", wide: true, cell: func(s S) cell { return text(digest(s.PackageDigest)) }},
		{name: "WAITING", wide: true, cell: func(s S) cell { return text(s.Waiting) }},
	})
}

// manyTests is how many tests a person wants to see when all is well.
const manyTests = 25

// printSubmission prints one with all there is to say.
func (a *App) printSubmission(s *gavelapi.Submission) error {
	if a.machine() {
		return a.printSubmissions([]gavelapi.Submission{*s}, s)
	}
	w := bufio.NewWriter(a.Out)
	status, c := s.Verdict, verdictColor(s.Verdict)
	if status == "" {
		status, c = s.State, stateColor(s.State)
	}
	fmt.Fprintf(w, "submission %d  %s\n", s.ID, a.style.paint(clean(status), cmp.Or(c, bold), a.style.out))
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %s %s\n", a.style.paint(fmt.Sprintf("%-9s", name), dim, a.style.out), clean(fmt.Sprintf(format, args...)))
	}
	line("problem", "%s, package %s", s.Problem, digest(s.PackageDigest))
	line("source", "%s, %s, %s", s.Language, cmp.Or(s.SourceName, "no file name"), sizeOf(s.SourceFiles, s.SourceBytes))
	if s.User != "" {
		line("user", "%s", s.User)
	}
	if s.Waiting != "" {
		line("waiting", "%s", s.Waiting)
	}
	if s.Detail != nil {
		for _, text := range rejudgings(s) {
			line("rejudge", "%s", text)
		}
	}
	if s.Fault != nil {
		line("fault", "%s: %s", s.Fault.Blame, s.Fault.Message)
	}
	if d := s.Detail; d != nil {
		a.printDetail(w, s, d, line)
	}
	return w.Flush()
}

func (a *App) printDetail(w *bufio.Writer, s *gavelapi.Submission, d *gavelapi.SubmissionDetail, line func(name, format string, args ...any)) {
	if len(d.Tests) > 0 && s.Verdict != "" && s.Verdict != "CE" {
		line("time", "%s ms cpu, %s ms wall; limit %s ms", ms(s.CPUUS), ms(s.WallUS), ms(d.Limits.CPUUS))
		line("memory", "%s MiB; limit %s MiB", mib(s.MemoryBytes), mib(d.Limits.MemoryBytes))
	}
	if s.Worker != "" && gavelapi.Final(s.State) && s.FinishedAt != nil {
		line("judged", "by %s with %s, %s after it was handed in", s.Worker, orDash(language.ShortVersion("", d.Provenance.Toolchain)), took(s.FinishedAt.Sub(s.CreatedAt)))
	}
	if a.Output == "wide" {
		p := d.Provenance
		line("digest", "%s", s.PackageDigest)
		if p.WorkerBuild != "" {
			line("measured", "memory by %s, cpu by %s, kernel %s, worker %s", orDash(p.MemoryMeter), orDash(p.CPUMeter), orDash(p.Kernel), orDash(p.WorkerBuild))
		}
		for _, at := range d.Attempts {
			line("attempt", "%s", attemptText(at))
		}
	}
	if d.Unreadable != "" {
		line("unreadable", "%s", clean(d.Unreadable))
	}
	if d.Compile.Reason != "" {
		line("compiler", "stopped: %s limit", d.Compile.Reason)
	}
	if d.Compile.Log != "" && (s.Verdict == "CE" || a.Output == "wide") {
		fmt.Fprintln(w, "\ncompiler output:")
		for _, l := range cleanLines(d.Compile.Log) {
			fmt.Fprintln(w, "  "+l)
		}
		if d.Compile.LogCut {
			fmt.Fprintln(w, "  … (cut)")
		}
	}
	if len(d.Tests) > 0 {
		fmt.Fprintln(w)
		a.printTests(w, d.Tests)
	}
}

// rejudgings tells, oldest first, by which rejudges a submission was judged
// again and what became of each.
func rejudgings(s *gavelapi.Submission) []string {
	var out []string
	before := "" // the verdict, "" without one
	for _, j := range s.Detail.Judgings {
		if j.RejudgeID != 0 {
			became := fmt.Sprintf("%s instead of %s", j.Verdict, before)
			switch {
			case j.State == gavelapi.StatePending && before == "":
				became = "not judged yet"
			case j.State == gavelapi.StatePending:
				became = "judged again now"
			case j.State == gavelapi.StateCancelled:
				became = "cancelled"
			case before == "":
				became = j.Verdict + ", its first verdict"
			case j.Verdict == before:
				became = j.Verdict + " again"
			}
			if !j.Current && j.Verdict != "" {
				became += ", not current"
			}
			out = append(out, fmt.Sprintf("%d, %s UTC, by %s (%s): %s", j.RejudgeID, instant(j.CreatedAt),
				cmp.Or(j.RejudgeBy, "a token without a note"), j.RejudgeReason, became))
		}
		if j.Verdict != "" && (j.Current || before == "") {
			before = j.Verdict
		}
	}
	return out
}

func attemptText(at gavelapi.Attempt) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d on %s at %s: %s", at.LeaseGen, at.Worker, instant(at.GrantedAt), at.Outcome)
	if at.Blame != "" {
		fmt.Fprintf(&b, ", blames %s", at.Blame)
	}
	if at.Message != "" {
		fmt.Fprintf(&b, ", %s", at.Message)
	}
	if at.LateReport != "" {
		fmt.Fprintf(&b, ", late report of %s changed nothing", at.LateReport)
	}
	return b.String()
}

// printTests shows every test, or of many only those that are not AC.
func (a *App) printTests(w *bufio.Writer, tests []gavelapi.TestResult) {
	type T = gavelapi.TestResult
	shown, hidden := tests, 0
	if len(tests) > manyTests && a.Output != "wide" {
		shown = nil
		skipped := 0
		for _, t := range tests {
			switch t.Verdict {
			case "AC":
				hidden++
			case gavelapi.SkippedTest:
				skipped++
			default:
				shown = append(shown, t)
			}
		}
		defer func() {
			fmt.Fprintf(w, "%d tests: %d AC, %d skipped; -o wide shows each\n", len(tests), hidden, skipped)
		}()
		if len(shown) == 0 {
			return
		}
	}
	ran := func(t T, s string) cell {
		if t.Verdict == gavelapi.SkippedTest {
			return cell{}
		}
		return text(s)
	}
	table(w, a, shown, []column[T]{
		{name: "TEST", flex: 16, cell: func(t T) cell { return text(t.Name) }},
		{name: "VERDICT", cell: func(t T) cell { return shade(t.Verdict, verdictColor(t.Verdict)) }},
		{name: "CPU ms", right: true, cell: func(t T) cell { return ran(t, ms(t.CPUUS)) }},
		{name: "WALL ms", right: true, cell: func(t T) cell { return ran(t, ms(t.WallUS)) }},
		{name: "MiB", right: true, cell: func(t T) cell { return ran(t, mib(t.MemoryBytes)) }},
		{name: "OUTPUT", right: true, wide: true, cell: func(t T) cell { return ran(t, size(t.OutputBytes)) }},
		{name: "WHY", flex: 10, cell: func(t T) cell { return text(why(t)) }},
	})
}

// why says what ended a test, then what the checker said.
func why(t gavelapi.TestResult) string {
	var parts []string
	switch t.Reason {
	case "":
	case "exit":
		parts = append(parts, fmt.Sprintf("exit code %d", t.ExitCode))
	case "signal":
		parts = append(parts, fmt.Sprintf("signal %d", t.Signal))
	case "checker":
	default:
		parts = append(parts, t.Reason+" limit")
	}
	if t.Message != "" {
		parts = append(parts, t.Message)
	}
	if len(t.Attempts) > 0 {
		runs := make([]string, len(t.Attempts))
		for i, a := range t.Attempts {
			runs[i] = ms(a.CPUUS)
		}
		parts = append(parts, fmt.Sprintf("best of %d runs (%s ms cpu)", len(runs), strings.Join(runs, ", ")))
	}
	return strings.Join(parts, ": ")
}
