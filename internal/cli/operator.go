package cli

import (
	"bufio"
	"fmt"
	"strings"
	"time"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
)

// workerName is the argument of the commands about one worker.
type workerName struct {
	Name string `arg:"" help:"Name of the worker."`
}

func (n workerName) do(app *App, call func(*client.Client, string) (*gavelapi.WorkerInfo, error)) error {
	c, err := app.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	w, err := call(c, n.Name)
	if err != nil {
		return err
	}
	return app.printWorker(w)
}

// WorkerShowCmd is `gavel worker show`.
type WorkerShowCmd struct{ workerName }

// Run implements kong's command.
func (cmd *WorkerShowCmd) Run(app *App) error {
	return cmd.do(app, func(c *client.Client, name string) (*gavelapi.WorkerInfo, error) { return c.WorkerGet(app.Ctx, name) })
}

// WorkerDrainCmd is `gavel worker drain`.
type WorkerDrainCmd struct {
	workerName
	Note string         `placeholder:"TEXT" help:"Why; shown wherever the worker is."`
	For  *time.Duration `placeholder:"DURATION" help:"It ends by itself after this time, e.g. 2h."`
}

// Run implements kong's command.
func (cmd *WorkerDrainCmd) Run(app *App) error {
	return changeWorker(app, cmd.workerName, "drain", cmd.Note, cmd.For)
}

// WorkerPauseCmd is `gavel worker pause`.
type WorkerPauseCmd struct {
	workerName
	Note string         `placeholder:"TEXT" help:"Why; shown wherever the worker is."`
	For  *time.Duration `placeholder:"DURATION" help:"It ends by itself after this time, e.g. 2h."`
}

// Run implements kong's command.
func (cmd *WorkerPauseCmd) Run(app *App) error {
	return changeWorker(app, cmd.workerName, "pause", cmd.Note, cmd.For)
}

// WorkerResumeCmd is `gavel worker resume`.
type WorkerResumeCmd struct {
	workerName
	Reason string `placeholder:"TEXT" help:"Why; kept in the audit trail."`
}

// Run implements kong's command.
func (cmd *WorkerResumeCmd) Run(app *App) error {
	return changeWorker(app, cmd.workerName, "resume", cmd.Reason, nil)
}

func changeWorker(app *App, n workerName, action, note string, lasts *time.Duration) error {
	in := gavelapi.WorkerChange{Action: action, Note: note}
	if lasts != nil {
		if err := between("--for", *lasts, time.Second, year); err != nil {
			return err
		}
		in.ForSeconds = int64(lasts.Seconds())
	}
	return n.do(app, func(c *client.Client, name string) (*gavelapi.WorkerInfo, error) {
		return c.WorkerChange(app.Ctx, name, in)
	})
}

// WorkerLabelCmd is `gavel worker label`.
type WorkerLabelCmd struct {
	workerName
	Pool  string    `placeholder:"NAME" help:"Its pool."`
	Tags  *[]string `placeholder:"TAG,…" help:"All its tags; --tags= takes them off."`
	Lanes *[]string `placeholder:"LANE,…" help:"The only lanes it takes: run, judge, prepare, rejudge; --lanes= means all."`

	Reason string `placeholder:"TEXT" help:"Why; kept in the audit trail."`
}

// Run implements kong's command.
func (cmd *WorkerLabelCmd) Run(app *App) error {
	if cmd.Pool == "" && cmd.Tags == nil && cmd.Lanes == nil {
		return usage("give --pool, --tags or --lanes", "nothing is to be changed")
	}
	in := gavelapi.WorkerLabels{Pool: cmd.Pool, Tags: labels(cmd.Tags), Lanes: labels(cmd.Lanes), Reason: cmd.Reason}
	return cmd.do(app, func(c *client.Client, name string) (*gavelapi.WorkerInfo, error) {
		return c.WorkerLabel(app.Ctx, name, in)
	})
}

// labels keeps "not given" apart from "none".
func labels(given *[]string) []string {
	if given == nil {
		return nil
	}
	list := []string{}
	for _, s := range *given {
		if s != "" {
			list = append(list, s)
		}
	}
	return list
}

// WorkerRemoveCmd is `gavel worker remove`.
type WorkerRemoveCmd struct {
	workerName
	Reason string `placeholder:"TEXT" help:"Why; kept in the audit trail."`
}

// Run implements kong's command.
func (cmd *WorkerRemoveCmd) Run(app *App) error {
	c, err := app.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.WorkerRemove(app.Ctx, cmd.Name, cmd.Reason); err != nil {
		return err
	}
	app.note("worker %s is removed; what it held goes to others", cmd.Name)
	return nil
}

// printWorker prints one worker as a sheet.
func (a *App) printWorker(w *gavelapi.WorkerInfo) error {
	if a.machine() {
		return printItems(a, []gavelapi.WorkerInfo{*w}, w, func(w gavelapi.WorkerInfo) string { return w.Name }, nil)
	}
	rows := [][2]string{{"state", w.State}}
	if w.Away != "" {
		rows = append(rows, [2]string{"away", w.Away})
	}
	rows = append(rows, [2]string{"pool", fmt.Sprintf("%s, rank %d", w.Pool, w.Rank)})
	if len(w.Tags) > 0 {
		rows = append(rows, [2]string{"tags", strings.Join(w.Tags, ", ")})
	}
	if len(w.Lanes) > 0 {
		rows = append(rows, [2]string{"lanes", "only " + strings.Join(w.Lanes, ", ")})
	}
	seen := "never"
	if w.LastSeenAt != nil {
		seen = instant(*w.LastSeenAt) + " UTC"
	}
	c := w.Capabilities
	rows = append(rows, [][2]string{
		{"leases", fmt.Sprintf("%d of %d", w.Leases, w.Slots)},
		{"last seen", seen},
		{"enrolled", instant(w.EnrolledAt) + " UTC"},
		{"languages", offers(c.Languages)},
		{"machine", fmt.Sprintf("%d cores, %s MiB, %s, kernel %s", c.Cores, mib(c.MemoryBytes), orDash(c.Arch), orDash(c.Kernel))},
		{"sandbox", orDash(c.Sandbox)},
		{"build", orDash(c.Build)},
	}...)
	if len(c.Weaker) > 0 {
		rows = append(rows, [2]string{"lacks", strings.Join(c.Weaker, ", ")})
	}
	if w.Unreadable != "" {
		rows = append(rows, [2]string{"unreadable", w.Unreadable})
	}
	return a.sheet("worker "+w.Name, rows)
}

// PoolCmd is `gavel pool`.
type PoolCmd struct {
	List PoolListCmd `cmd:"" help:"List pools, the most preferred first."`
	Set  PoolSetCmd  `cmd:"" help:"Rank a pool."`
}

// PoolListCmd is `gavel pool list`.
type PoolListCmd struct{}

// Run implements kong's command.
func (cmd *PoolListCmd) Run(app *App) error {
	c, err := app.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	list, err := c.PoolList(app.Ctx)
	if err != nil {
		return err
	}
	return app.printPools(list.Pools, list)
}

// PoolSetCmd is `gavel pool set`.
type PoolSetCmd struct {
	Name   string `arg:"" help:"Name of the pool."`
	Rank   int    `required:"" placeholder:"N" help:"Work goes to the lowest rank that has somebody able and free; 100 unless set."`
	Note   string `placeholder:"TEXT" help:"What it is."`
	Reason string `placeholder:"TEXT" help:"Why; kept in the audit trail."`
}

// Run implements kong's command.
func (cmd *PoolSetCmd) Run(app *App) error {
	c, err := app.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	p, err := c.PoolSet(app.Ctx, cmd.Name, gavelapi.PoolSettings{Rank: cmd.Rank, Note: cmd.Note, Reason: cmd.Reason})
	if err != nil {
		return err
	}
	return app.printPools([]gavelapi.Pool{*p}, p)
}

func (a *App) printPools(list []gavelapi.Pool, whole any) error {
	type P = gavelapi.Pool
	return printItems(a, list, whole, func(p P) string { return p.Name }, []column[P]{
		{name: "POOL", flex: 12, cell: func(p P) cell { return text(p.Name) }},
		{name: "RANK", right: true, cell: func(p P) cell { return number(int64(p.Rank)) }},
		{name: "WORKERS", right: true, cell: func(p P) cell { return number(int64(p.Workers)) }},
		{name: "NOTE", flex: 20, cell: func(p P) cell { return text(p.Note) }},
	})
}

// SubmissionExplainCmd is `gavel submission explain`.
type SubmissionExplainCmd struct {
	ID int64 `arg:"" help:"Number of the submission."`
}

// Run implements kong's command.
func (cmd *SubmissionExplainCmd) Run(app *App) error {
	c, err := app.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	e, err := c.SubmissionExplain(app.Ctx, cmd.ID)
	if err != nil {
		return err
	}
	return app.printExplanation(e)
}

func (a *App) printExplanation(e *gavelapi.Explanation) error {
	if a.machine() {
		return printItems(a, []gavelapi.Explanation{*e}, e, func(e gavelapi.Explanation) string { return fmt.Sprint(e.SubmissionID) }, nil)
	}
	w := bufio.NewWriter(a.Out)
	fmt.Fprintf(w, "%s %s\n", a.style.paint(fmt.Sprintf("submission %d:", e.SubmissionID), bold, a.style.out), clean(e.Summary))
	if e.Lane != "" {
		fmt.Fprintf(w, "  %s lane, %s", e.Lane, e.Priority)
		if e.Position > 0 { // which the leader alone knows
			fmt.Fprintf(w, ", place %d", e.Position)
		}
		if e.EstimateMS > 0 {
			fmt.Fprintf(w, "; about %s to go", took(time.Duration(e.EstimateMS)*time.Millisecond))
		}
		if e.EstimateBasis != "" {
			fmt.Fprintf(w, " (%s)", clean(e.EstimateBasis))
		}
		fmt.Fprintln(w)
	}
	if e.CauseSince != nil {
		fmt.Fprintf(w, "  for this reason since %s UTC\n", instant(*e.CauseSince))
	}
	if e.StoredAt != nil {
		fmt.Fprintf(w, "  written down by the leader at %s UTC; ask the leader for its place and for each worker\n", instant(*e.StoredAt))
	}
	for _, r := range e.Workers {
		reason := r.Reason
		if reason == "" {
			reason = "could take it"
		}
		fmt.Fprintf(w, "  %s: %s\n", clean(r.Worker), clean(reason))
	}
	if len(e.History) > 0 {
		fmt.Fprintln(w, "\nso far (UTC):")
	}
	for _, h := range e.History {
		fmt.Fprintf(w, "  %s  %s\n", instant(h.At), clean(h.Text))
	}
	if len(e.Spent) > 0 {
		fmt.Fprintln(w, "\nwhere the time went:")
	}
	for _, s := range e.Spent {
		fmt.Fprintf(w, "  %9s  %s\n", took(time.Duration(s.US)*time.Microsecond), clean(s.What))
	}
	return w.Flush()
}
