package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
)

// QueueCmd is `gavel queue`.
type QueueCmd struct {
	Show   QueueShowCmd   `cmd:"" help:"Count what waits, and list what is held."`
	Pause  QueuePauseCmd  `cmd:"" help:"Hold waiting work: all of it, or of a lane, a language or a problem."`
	Resume QueueResumeCmd `cmd:"" help:"Let held work go."`
	Bump   QueueBumpCmd   `cmd:"" help:"Put a waiting submission in front."`
}

// held says what a brake is about; exactly one is given, or none for all lanes.
type held struct {
	Lane     string `xor:"what" placeholder:"LANE" help:"run, judge, prepare or rejudge."`
	Language string `xor:"what" short:"l" placeholder:"ID" help:"A language."`
	Problem  string `xor:"what" short:"p" placeholder:"NAME" help:"A problem."`
	All      bool   `xor:"what" help:"Every lane; to resume, whatever is held."`
}

// brakes lists them as kind and name.
func (h held) brakes() ([]gavelapi.Brake, error) {
	switch {
	case h.Lane != "":
		return []gavelapi.Brake{{Kind: "lane", Name: h.Lane}}, nil
	case h.Language != "":
		return []gavelapi.Brake{{Kind: "language", Name: h.Language}}, nil
	case h.Problem != "":
		return []gavelapi.Brake{{Kind: "problem", Name: h.Problem}}, nil
	case h.All:
		return []gavelapi.Brake{{Kind: "lane", Name: "run"}, {Kind: "lane", Name: "judge"}, {Kind: "lane", Name: "prepare"}, {Kind: "lane", Name: "rejudge"}}, nil
	}
	return nil, usage("give --lane, --language, --problem or --all", "what is meant?")
}

// QueueShowCmd is `gavel queue show`.
type QueueShowCmd struct{}

// Run implements kong's command.
func (cmd *QueueShowCmd) Run(app *App) error {
	c, err := app.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	q, err := c.Queue(app.Ctx)
	if err != nil {
		return err
	}
	return app.printQueue(q)
}

// QueuePauseCmd is `gavel queue pause`.
type QueuePauseCmd struct {
	held
	Reason string `required:"" placeholder:"TEXT" help:"Why; whoever asks why a submission waits reads it."`
}

// Run implements kong's command.
func (cmd *QueuePauseCmd) Run(app *App) error {
	brakes, err := cmd.brakes()
	if err != nil {
		return err
	}
	return withArbiter(app, func(c *client.Client) error {
		return app.eachBrake(c, brakes, func(b gavelapi.Brake) (*gavelapi.Queue, error) {
			b.Reason = cmd.Reason
			return c.QueuePause(app.Ctx, b)
		})
	})
}

// QueueResumeCmd is `gavel queue resume`.
type QueueResumeCmd struct {
	held
	Reason string `placeholder:"TEXT" help:"Why; kept in the audit trail."`
}

// Run implements kong's command.
func (cmd *QueueResumeCmd) Run(app *App) error {
	brakes, err := cmd.brakes()
	if err != nil {
		return err
	}
	return withArbiter(app, func(c *client.Client) error {
		if cmd.All { // whatever is held
			q, err := c.Queue(app.Ctx)
			if err != nil {
				return err
			}
			brakes = q.Brakes
		}
		return app.eachBrake(c, brakes, func(b gavelapi.Brake) (*gavelapi.Queue, error) {
			q, err := c.QueueResume(app.Ctx, b.Kind, b.Name, cmd.Reason)
			if cmd.All && client.StatusOf(err) == http.StatusNotFound {
				return c.Queue(app.Ctx) // somebody else was quicker
			}
			return q, err
		})
	})
}

// eachBrake makes a call for each and prints what the queue is then.
func (a *App) eachBrake(c *client.Client, brakes []gavelapi.Brake, call func(gavelapi.Brake) (*gavelapi.Queue, error)) (err error) {
	var q *gavelapi.Queue
	for _, b := range brakes {
		if q, err = call(b); err != nil {
			return err
		}
	}
	if q == nil { // there was nothing to do
		if q, err = c.Queue(a.Ctx); err != nil {
			return err
		}
	}
	return a.printQueue(q)
}

func (a *App) printQueue(q *gavelapi.Queue) error {
	var rows []queueRow
	for _, c := range q.Waiting {
		left := c.Jobs
		for _, r := range c.Reasons {
			rows = append(rows, queueRow{State: "waiting", Kind: "lane", Name: c.Lane, Language: c.Language, Jobs: r.Jobs, Reason: r.Reason})
			left -= r.Jobs
		}
		if left > 0 { // came a moment ago
			rows = append(rows, queueRow{State: "waiting", Kind: "lane", Name: c.Lane, Language: c.Language, Jobs: left})
		}
	}
	for _, b := range q.Brakes {
		rows = append(rows, queueRow{State: "held", Kind: b.Kind, Name: b.Name, Reason: b.Reason})
	}
	switch {
	case a.machine():
	case len(rows) == 0:
		a.note("nothing waits, and nothing is held")
		return nil
	case !q.Leader && q.ReasonsAt != nil:
		a.note("this arbiter does not lead: why work waits is as the leader wrote it down at %s UTC", instant(*q.ReasonsAt))
	case !q.Leader:
		a.note("this arbiter does not lead, and no leader has written down why work waits")
	}
	return printItems(a, rows, q, func(r queueRow) string { return r.subject() + "/" + r.detail() }, []column[queueRow]{
		{name: "LANE OR KIND", cell: func(r queueRow) cell { return text(r.subject()) }},
		{name: "LANGUAGE OR NAME", flex: 12, cell: func(r queueRow) cell { return text(orDash(r.detail())) }},
		{name: "JOBS", right: true, cell: func(r queueRow) cell { return text(r.count()) }},
		{name: "STATE", flex: 20, cell: func(r queueRow) cell { return text(strings.TrimSuffix(r.State+": "+r.Reason, ": ")) }},
	})
}

// queueRow is what waits in a lane for one reason, or a brake.
type queueRow struct {
	State    string `json:"state"` // waiting or held
	Kind     string `json:"kind"`  // lane, language or problem
	Name     string `json:"name"`
	Language string `json:"language,omitempty"` // of what waits
	Jobs     int    `json:"jobs,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

func (r queueRow) subject() string {
	if r.State == "waiting" {
		return r.Name
	}
	return r.Kind
}

func (r queueRow) detail() string {
	if r.State == "waiting" {
		return r.Language
	}
	return r.Name
}

func (r queueRow) count() string {
	if r.State == "waiting" {
		return fmt.Sprint(r.Jobs)
	}
	return ""
}

// QueueBumpCmd is `gavel queue bump`.
type QueueBumpCmd struct {
	ID     int64  `arg:"" help:"Number of the submission."`
	Reason string `placeholder:"TEXT" help:"Why; kept in the audit trail."`
}

// Run implements kong's command.
func (cmd *QueueBumpCmd) Run(app *App) error {
	c, err := app.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	s, err := c.SubmissionBump(app.Ctx, cmd.ID, cmd.Reason)
	if err != nil {
		return err
	}
	return app.printSubmissions([]gavelapi.Submission{*s}, s)
}

// AuditCmd is `gavel audit`.
type AuditCmd struct {
	List AuditListCmd `cmd:"" help:"List what operators did, newest first."`
}

// AuditListCmd is `gavel audit list`.
type AuditListCmd struct {
	Subject string `placeholder:"NAME" help:"Only what was done to this, e.g. a worker."`
	pageLimit
}

// Run implements kong's command.
func (cmd *AuditListCmd) Run(app *App) error {
	c, err := app.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	type E = gavelapi.AuditEntry
	var list gavelapi.AuditList
	list.Entries, list.Next, err = pages(app, cmd.pageLimit, func(cursor string, limit int) ([]E, string, error) {
		page, err := c.AuditList(app.Ctx, cmd.Subject, cursor, limit)
		if err != nil {
			return nil, "", err
		}
		return page.Entries, page.Next, nil
	})
	if err != nil {
		return err
	}
	return printItems(app, list.Entries, list, func(e E) string { return fmt.Sprint(e.ID) }, []column[E]{
		{name: "AT (UTC)", cell: func(e E) cell { return text(instant(e.At)) }},
		{name: "BY", flex: 8, cell: func(e E) cell { return text(orDash(e.Token)) }},
		{name: "ACTION", cell: func(e E) cell { return text(e.Action) }},
		{name: "SUBJECT", flex: 12, cell: func(e E) cell { return text(e.Subject) }},
		{name: "WHAT", flex: 20, cell: func(e E) cell { return text(orDash(whatWasSet(e))) }},
		{name: "REASON", flex: 20, cell: func(e E) cell { return text(e.Reason) }},
	})
}

// whatWasSet is an entry's details in one line, without its reason.
func whatWasSet(e gavelapi.AuditEntry) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(e.Details, &fields) != nil {
		return string(e.Details)
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := string(fields[name])
		if value == "null" {
			continue
		}
		var plain string
		if json.Unmarshal(fields[name], &plain) == nil {
			value = plain
		}
		if name != "reason" && value != e.Reason {
			parts = append(parts, name+" "+value)
		}
	}
	return strings.Join(parts, ", ")
}
