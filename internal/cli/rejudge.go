package cli

import (
	"fmt"
	"strconv"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
)

// RejudgeCmd is `gavel rejudge`.
type RejudgeCmd struct {
	Start   RejudgeStartCmd   `cmd:"" help:"Judge again what a filter selects, beside the old verdicts."`
	List    RejudgeListCmd    `cmd:"" help:"List rejudges, newest first."`
	Show    RejudgeShowCmd    `cmd:"" help:"Show one and its progress."`
	Diff    RejudgeDiffCmd    `cmd:"" help:"Show old verdicts beside new ones."`
	Apply   RejudgeApplyCmd   `cmd:"" help:"Make the new verdicts current, all or some."`
	Discard RejudgeDiscardCmd `cmd:"" help:"Keep the old verdicts."`
	Cancel  RejudgeCancelCmd  `cmd:"" help:"Stop one that runs."`
}

// RejudgeStartCmd is `gavel rejudge start`.
type RejudgeStartCmd struct {
	IDs      []int64 `arg:"" optional:"" name:"id" help:"Numbers of submissions; or select with the flags."`
	Problem  string  `short:"p" placeholder:"NAME" help:"Only of this problem."`
	User     string  `placeholder:"NAME" help:"Only of this user."`
	Language string  `short:"l" placeholder:"ID" help:"Only in this language."`
	Verdict  string  `placeholder:"VERDICT" enum:"AC,WA,TLE,MLE,OLE,RE,CE,SE," default:"" help:"Only with this verdict; SE retries system errors."`
	Outdated bool    `help:"Only judged with another package than the live one."`
	All      bool    `help:"Every submission, when nothing else is said."`
	Reason   string  `required:"" placeholder:"TEXT" help:"Why; everybody who looks at it later reads it."`
	AtOnce   bool    `name:"at-once" help:"Let each new verdict replace the old one as soon as it is there."`
	Wait     bool    `help:"Wait until everything is judged."`
}

// Run implements kong's command.
func (cmd *RejudgeStartCmd) Run(app *App) error {
	if len(cmd.IDs) == 0 && cmd.Problem == "" && cmd.User == "" && cmd.Language == "" && cmd.Verdict == "" && !cmd.Outdated && !cmd.All {
		return usage("name submissions, or select with -p, -l, --user, --verdict or --outdated; --all is everything", "nothing is selected to be judged again")
	}
	c, err := app.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	in := gavelapi.NewRejudge{Reason: cmd.Reason, Apply: "later", Filter: gavelapi.RejudgeFilter{
		Submissions: cmd.IDs, Problem: cmd.Problem, User: cmd.User, Language: cmd.Language, Verdict: cmd.Verdict, Outdated: cmd.Outdated, All: cmd.All,
	}}
	if cmd.AtOnce {
		in.Apply = "at_once"
	}
	r, err := c.RejudgeStart(app.Ctx, in)
	if err != nil {
		return err
	}
	for _, s := range r.Skipped {
		app.note("left out: submission %d: %s", s.SubmissionID, s.Reason)
	}
	if r.Total == 0 {
		app.note("warning: nothing is judged again: no submission was selected and could be taken")
	}
	if cmd.Wait {
		if r, err = app.awaitRejudge(c, r); err != nil {
			return err
		}
	}
	return app.printRejudge(r)
}

// awaitRejudge shows the progress until nothing is open any more.
func (a *App) awaitRejudge(c *client.Client, r *gavelapi.Rejudge) (*gavelapi.Rejudge, error) {
	live := &liveLine{app: a}
	defer live.clear()
	id := r.ID
	for r.State == gavelapi.RejudgeRunning {
		live.show(fmt.Sprintf("rejudge %d: %d of %d judged, %d changed", id, r.Done, r.Total, r.Changed), "running")
		if err := client.Sleep(a.Ctx, idlePause); err != nil {
			return nil, &Error{
				Code: ExitInterrupted, Message: fmt.Sprintf("interrupted; rejudge %d goes on", id),
				Hint: fmt.Sprintf("gavel rejudge show %d shows it, gavel rejudge cancel %d stops it", id, id),
			}
		}
		var err error
		if r, err = c.RejudgeGet(a.Ctx, id); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// RejudgeListCmd is `gavel rejudge list`.
type RejudgeListCmd struct {
	pageLimit
}

// Run implements kong's command.
func (cmd *RejudgeListCmd) Run(app *App) error {
	c, err := app.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	var list gavelapi.RejudgeList
	list.Rejudges, list.Next, err = pages(app, cmd.pageLimit, func(cursor string, limit int) ([]gavelapi.Rejudge, string, error) {
		page, err := c.RejudgeList(app.Ctx, cursor, limit)
		if err != nil {
			return nil, "", err
		}
		return page.Rejudges, page.Next, nil
	})
	if err != nil {
		return err
	}
	return app.printRejudges(list.Rejudges, list)
}

// rejudgeID is the argument of the commands about one rejudge.
type rejudgeID struct {
	ID int64 `arg:"" help:"Number of the rejudge."`
}

func (id rejudgeID) do(app *App, call func(*client.Client) (*gavelapi.Rejudge, error)) error {
	c, err := app.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	r, err := call(c)
	if err != nil {
		return err
	}
	return app.printRejudge(r)
}

// RejudgeShowCmd is `gavel rejudge show`.
type RejudgeShowCmd struct{ rejudgeID }

// Run implements kong's command.
func (cmd *RejudgeShowCmd) Run(app *App) error {
	return cmd.do(app, func(c *client.Client) (*gavelapi.Rejudge, error) { return c.RejudgeGet(app.Ctx, cmd.ID) })
}

// RejudgeApplyCmd is `gavel rejudge apply`.
type RejudgeApplyCmd struct {
	rejudgeID
	Only []int64 `placeholder:"ID,…" help:"Only these submissions; the rest can be applied later."`

	Reason string `placeholder:"TEXT" help:"Why; kept in the audit trail."`
}

// Run implements kong's command.
func (cmd *RejudgeApplyCmd) Run(app *App) error {
	return cmd.do(app, func(c *client.Client) (*gavelapi.Rejudge, error) {
		return c.RejudgeApply(app.Ctx, cmd.ID, cmd.Only, cmd.Reason)
	})
}

// RejudgeDiscardCmd is `gavel rejudge discard`.
type RejudgeDiscardCmd struct {
	rejudgeID
	Reason string `placeholder:"TEXT" help:"Why; kept in the audit trail."`
}

// Run implements kong's command.
func (cmd *RejudgeDiscardCmd) Run(app *App) error {
	return cmd.do(app, func(c *client.Client) (*gavelapi.Rejudge, error) {
		return c.RejudgeDiscard(app.Ctx, cmd.ID, cmd.Reason)
	})
}

// RejudgeCancelCmd is `gavel rejudge cancel`.
type RejudgeCancelCmd struct {
	rejudgeID
	Reason string `placeholder:"TEXT" help:"Why; kept in the audit trail."`
}

// Run implements kong's command.
func (cmd *RejudgeCancelCmd) Run(app *App) error {
	return cmd.do(app, func(c *client.Client) (*gavelapi.Rejudge, error) { return c.RejudgeCancel(app.Ctx, cmd.ID, cmd.Reason) })
}

// RejudgeDiffCmd is `gavel rejudge diff`.
type RejudgeDiffCmd struct {
	rejudgeID
	All bool `help:"Also submissions whose verdict is the same."`
}

// Run implements kong's command.
func (cmd *RejudgeDiffCmd) Run(app *App) error {
	c, err := app.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	var all gavelapi.RejudgeChangeList
	all.Changes, all.Next, err = pages(app, pageLimit{}, func(cursor string, limit int) ([]gavelapi.RejudgeChange, string, error) {
		page, err := c.RejudgeChanges(app.Ctx, cmd.ID, !cmd.All, cursor, limit)
		if err != nil {
			return nil, "", err
		}
		all.State = page.State
		return page.Changes, page.Next, nil
	})
	if err != nil {
		return err
	}
	switch {
	case app.machine():
	case all.State == gavelapi.RejudgeDiscarded:
		app.note("rejudge %d was discarded: none of its verdicts was applied, and none can be", cmd.ID)
	case all.State == gavelapi.RejudgeCancelled:
		app.note("rejudge %d was cancelled: what was not applied then cannot be any more", cmd.ID)
	}
	verdict := func(v string) cell { return shade(orDash(v), verdictColor(v)) }
	return printItems(app, all.Changes, all, func(c gavelapi.RejudgeChange) string { return strconv.FormatInt(c.SubmissionID, 10) }, []column[gavelapi.RejudgeChange]{
		{name: "SUBMISSION", right: true, cell: func(c gavelapi.RejudgeChange) cell { return number(c.SubmissionID) }},
		{name: "PROBLEM", flex: 10, cell: func(c gavelapi.RejudgeChange) cell { return text(c.Problem) }},
		{name: "USER", flex: 8, cell: func(c gavelapi.RejudgeChange) cell { return text(c.User) }},
		{name: "LANGUAGE", cell: func(c gavelapi.RejudgeChange) cell { return text(c.Language) }},
		{name: "OLD", cell: func(c gavelapi.RejudgeChange) cell { return verdict(c.OldVerdict) }},
		{name: "NEW", cell: func(c gavelapi.RejudgeChange) cell { return verdict(c.NewVerdict) }},
		{name: "OLD MS", right: true, cell: func(c gavelapi.RejudgeChange) cell { return text(ms(c.OldCPUUS)) }},
		{name: "NEW MS", right: true, cell: func(c gavelapi.RejudgeChange) cell { return text(ms(c.NewCPUUS)) }},
		{name: "APPLIED", cell: func(c gavelapi.RejudgeChange) cell { return text(applied(all.State, &c)) }},
	})
}

// applied says whether a new verdict replaced the old one, or why it does not.
func applied(state string, c *gavelapi.RejudgeChange) string {
	switch {
	case c.Applied:
		return "yes"
	case c.First && c.NewState != gavelapi.StateCancelled:
		return "first verdict" // it counts, and nobody needs to apply it
	case state == gavelapi.RejudgeDiscarded || state == gavelapi.RejudgeCancelled:
		return state // the rejudge, and with it this
	}
	return "no"
}

func (a *App) printRejudge(r *gavelapi.Rejudge) error {
	return a.printRejudges([]gavelapi.Rejudge{*r}, r)
}

func (a *App) printRejudges(items []gavelapi.Rejudge, whole any) error {
	return printItems(a, items, whole, func(r gavelapi.Rejudge) string { return strconv.FormatInt(r.ID, 10) }, []column[gavelapi.Rejudge]{
		{name: "ID", right: true, cell: func(r gavelapi.Rejudge) cell { return number(r.ID) }},
		{name: "STATE", cell: func(r gavelapi.Rejudge) cell { return text(r.State) }},
		{name: "DONE", right: true, cell: func(r gavelapi.Rejudge) cell { return text(fmt.Sprintf("%d/%d", r.Done, r.Total)) }},
		{name: "CHANGED", right: true, cell: func(r gavelapi.Rejudge) cell { return number(int64(r.Changed)) }},
		{name: "APPLIED", right: true, cell: func(r gavelapi.Rejudge) cell { return number(int64(r.Applied)) }},
		{name: "FAILED", right: true, cell: func(r gavelapi.Rejudge) cell { return number(int64(r.Failed)) }},
		{name: "SKIPPED", right: true, cell: func(r gavelapi.Rejudge) cell { return number(int64(len(r.Skipped))) }},
		{name: "APPLY", cell: func(r gavelapi.Rejudge) cell { return text(r.Apply) }},
		{name: "REASON", flex: 12, cell: func(r gavelapi.Rejudge) cell { return text(r.Reason) }},
		{name: "STARTED (UTC)", wide: true, cell: func(r gavelapi.Rejudge) cell { return text(instant(r.CreatedAt)) }},
	})
}

// AccountCmd is `gavel account`.
type AccountCmd struct {
	Show AccountShowCmd `cmd:"" help:"Show what a user has solved."`
}

// AccountShowCmd is `gavel account show`.
type AccountShowCmd struct {
	User string `arg:"" help:"The user as the site calls it."`
}

// Run implements kong's command.
func (cmd *AccountShowCmd) Run(app *App) error {
	c, err := app.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	account, err := c.AccountGet(app.Ctx, cmd.User)
	if err != nil {
		return err
	}
	return printItems(app, account.Solved, account, func(s gavelapi.Solve) string { return s.Problem }, []column[gavelapi.Solve]{
		{name: "PROBLEM", flex: 12, cell: func(s gavelapi.Solve) cell { return text(s.Problem) }},
		{name: "POINTS", right: true, cell: func(s gavelapi.Solve) cell { return number(int64(s.Points)) }},
		{name: "SUBMISSION", right: true, cell: func(s gavelapi.Solve) cell { return number(s.SubmissionID) }},
		{name: "SOLVED (UTC)", cell: func(s gavelapi.Solve) cell { return text(instant(s.SolvedAt)) }},
	})
}

// SubmissionRejudgeCmd is `gavel submission rejudge`.
type SubmissionRejudgeCmd struct {
	ID     string `arg:"" help:"Number of the submission."`
	Reason string `required:"" placeholder:"TEXT" help:"Why; everybody who looks at it later reads it."`
}

// Run implements kong's command.
func (cmd *SubmissionRejudgeCmd) Run(app *App) error {
	return withSubmission(app, cmd.ID, func(c *client.Client, id int64) error {
		r, err := c.SubmissionRejudge(app.Ctx, id, cmd.Reason)
		if err != nil {
			return err
		}
		return app.printRejudge(r)
	})
}
