package cli

import (
	"fmt"
	"time"

	"github.com/gavel-oj/gavel/internal/edge"
	"github.com/gavel-oj/gavel/internal/store"
)

// FleetCmd is `gavel fleet`.
type FleetCmd struct {
	Stage FleetStageCmd `cmd:"" help:"Show where the switch from edge workers to an arbiter stands, and what comes next."`
}

// FleetStageCmd is `gavel fleet stage`. It asks the database, because in the
// first stage there need not be an arbiter to ask.
type FleetStageCmd struct {
	Config          string        `placeholder:"FILE" help:"Settings file with database_url, as of gavel serve ($$GAVEL_CONFIG; default /etc/gavel/gavel.yaml, if it is there)."`
	DatabaseURL     string        `name:"database-url" placeholder:"URL" help:"PostgreSQL of the deployment ($$GAVEL_DATABASE_URL)."`
	DatabaseURLFile string        `name:"database-url-file" placeholder:"FILE" help:"File that holds the database's URL ($$GAVEL_DATABASE_URL_FILE)."`
	Since           time.Duration `default:"1h" help:"A worker counts when it was seen this lately."`
	OldTable        string        `default:"judge_dispatch_state" placeholder:"NAME" help:"The table with the shared row of the program before gavel."`
	OldRole         string        `default:"oj_judge" placeholder:"NAME" help:"The login that its workers used."`
	OldLock         int64         `default:"22318244631692612" placeholder:"N" help:"Number of its site-wide advisory lock."`
}

// Run implements kong's command.
func (c *FleetStageCmd) Run(a *App) error {
	v, err := a.resolve("serve", c.Config, map[string]string{"database_url": c.DatabaseURL, "database_url_file": c.DatabaseURLFile})
	if err != nil {
		return err
	}
	a.warn(v)
	url := v.Text("database_url")
	if url == "" {
		return usage("set --database-url, GAVEL_DATABASE_URL or GAVEL_DATABASE_URL_FILE, or database_url in the settings file", "no database is given")
	}
	if err := between("--since", c.Since, time.Second, year); err != nil {
		return err
	}
	db, err := store.Open(a.Ctx, url, store.Options{MaxConns: 1, AppName: "gavel-stage"})
	if err != nil {
		return serverError(err)
	}
	defer db.Close()
	s, err := edge.ReadStage(a.Ctx, db, edge.StageOptions{Since: c.Since, OldTable: c.OldTable, OldRole: c.OldRole, OldLock: c.OldLock})
	if err != nil {
		return withCause(err, failed("is it migrated? gavel serve does that at its start; and does this login belong to gavel?", "the database cannot be read: %v", root(err)))
	}
	type W = edge.StageWorker
	if err := printItems(a, s.Workers, s, func(w W) string { return w.Name }, []column[W]{
		{name: "WORKER", flex: 12, cell: func(w W) cell { return text(w.Name) }},
		{name: "POOL", flex: 8, cell: func(w W) cell { return text(w.Pool) }},
		{name: "RANK", right: true, cell: func(w W) cell { return number(int64(w.Rank)) }},
		{name: "WAY", cell: func(w W) cell { return text(w.Way) }},
		{name: "LOGIN", flex: 8, cell: func(w W) cell { return text(orDash(w.Login)) }},
		{name: "HEALTHY", cell: func(w W) cell { return text(condition(w)) }},
		{name: "LEASES", right: true, cell: func(w W) cell { return number(int64(w.Leases)) }},
		{name: "LAST SEEN (UTC)", cell: func(w W) cell { return text(instant(w.SeenAt)) }},
	}); err != nil || a.Output != "table" && a.Output != "wide" {
		return err
	}
	fmt.Fprintf(a.Out, "\nstage %d of 4: %s\n", s.Stage, s.Name)
	fmt.Fprintf(a.Out, "arbiter: %s\n", orText(s.Leading, "none leads"))
	for _, l := range s.Logins {
		fmt.Fprintf(a.Out, "login %s: %d sessions, %d workers\n", clean(l.Login), l.Sessions, l.Workers)
	}
	for _, left := range s.Left {
		fmt.Fprintf(a.Out, "left to do: %s\n", clean(left))
	}
	for _, next := range s.Next {
		fmt.Fprintf(a.Out, "next: %s\n", clean(next))
	}
	return nil
}

func condition(w edge.StageWorker) string {
	switch {
	case !w.Alive:
		return "dead"
	case w.Healthy:
		return "yes"
	}
	return "no"
}

func orText(s, other string) string {
	if s == "" {
		return other
	}
	return clean(s)
}
