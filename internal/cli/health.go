package cli

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
)

// WorkerHealthCmd is `gavel worker health`.
type WorkerHealthCmd struct {
	Name string `arg:"" help:"Name of the worker."`
}

// Run implements kong's command.
func (cmd *WorkerHealthCmd) Run(app *App) error {
	return withArbiter(app, func(c *client.Client) error {
		h, err := c.WorkerHealth(app.Ctx, cmd.Name)
		if err != nil {
			return err
		}
		return app.printHealth(h)
	})
}

// WorkerResetCmd is `gavel worker reset`.
type WorkerResetCmd struct {
	Name     string `arg:"" help:"Name of the worker."`
	Language string `short:"l" placeholder:"ID" help:"Only this language of it."`
	Reason   string `required:"" placeholder:"TEXT" help:"Why; everybody who looks at it later reads it."`
}

// Run implements kong's command.
func (cmd *WorkerResetCmd) Run(app *App) error {
	return withArbiter(app, func(c *client.Client) error {
		h, err := c.WorkerHealthReset(app.Ctx, cmd.Name, gavelapi.HealthReset{Language: cmd.Language, Reason: cmd.Reason})
		if err != nil {
			return err
		}
		return app.printHealth(h)
	})
}

// WorkerHoursCmd is `gavel worker hours`.
type WorkerHoursCmd struct {
	Name  string   `arg:"" help:"Name of the worker, or with --pool of a pool."`
	Pool  bool     `help:"The name is a pool's: for every worker of it that has no hours of its own."`
	Daily []string `placeholder:"FROM-TO" sep:"none" help:"Asleep every day, as in 01:30-06:00. May be repeated."`
	On    []string `placeholder:"DAYS FROM-TO" sep:"none" help:"Asleep on some days, as in 'Wednesday 04:00-04:30' or 'Mon-Fri 22:00-06:00'. May be repeated."`
	Zone  string   `placeholder:"ZONE" help:"Time zone of the times, as in Europe/Berlin (default: UTC)."`
	Clear bool     `help:"End the planned hours."`

	Reason string `placeholder:"TEXT" help:"Why; kept in the audit trail."`
}

// Run implements kong's command.
func (cmd *WorkerHoursCmd) Run(app *App) error {
	var windows []string
	for _, d := range cmd.Daily {
		windows = append(windows, "daily "+d)
	}
	windows = append(windows, cmd.On...)
	switch {
	case cmd.Clear && (len(windows) > 0 || cmd.Zone != ""):
		return usage("give --clear alone, or the hours", "--clear and hours contradict each other")
	case !cmd.Clear && len(windows) == 0 && (cmd.Pool || cmd.Zone != ""):
		return usage("for example --daily 01:30-06:00, or --clear", "no hours are given")
	}
	return withArbiter(app, func(c *client.Client) error {
		in := gavelapi.NewHours{Hours: strings.Join(windows, "; "), Zone: cmd.Zone, Reason: cmd.Reason}
		var p *gavelapi.PlannedHours
		var err error
		switch {
		case cmd.Pool:
			p, err = c.PoolHours(app.Ctx, cmd.Name, in)
		case cmd.Clear || len(windows) > 0:
			p, err = c.WorkerHours(app.Ctx, cmd.Name, in)
		default:
			var h *gavelapi.WorkerHealth
			if h, err = c.WorkerHealth(app.Ctx, cmd.Name); err == nil {
				if p = h.Hours; p == nil {
					p = &gavelapi.PlannedHours{Worker: cmd.Name, Zone: "UTC"}
				}
			}
		}
		if err != nil {
			return err
		}
		return app.printHours(p)
	})
}

// withArbiter connects, does something and closes.
func withArbiter(app *App, do func(*client.Client) error) error {
	c, err := app.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	return do(c)
}

func (a *App) printHours(p *gavelapi.PlannedHours) error {
	type H = gavelapi.PlannedHours
	moment := func(t *time.Time) cell {
		if t == nil {
			return shade("-", dim)
		}
		return text(instant(*t))
	}
	whose := func(h H) string {
		if h.Pool != "" {
			return "pool " + h.Pool
		}
		return h.Worker
	}
	return printItems(a, []H{*p}, p, whose, []column[H]{
		{name: "WHOSE", flex: 10, cell: func(h H) cell { return text(whose(h)) }},
		{name: "HOURS", flex: 20, cell: func(h H) cell { return text(orDash(h.Hours)) }},
		{name: "ZONE", cell: func(h H) cell { return text(h.Zone) }},
		{name: "NOW", cell: func(h H) cell { return text(orDash(h.Phase)) }},
		{name: "FROM (UTC)", cell: func(h H) cell { return moment(h.From) }},
		{name: "UNTIL (UTC)", cell: func(h H) cell { return moment(h.Until) }},
	})
}

// printHealth prints a worker's health with all there is to say.
func (a *App) printHealth(h *gavelapi.WorkerHealth) error {
	if a.Output != "table" && a.Output != "wide" {
		return printItems(a, []gavelapi.WorkerHealth{*h}, h, func(h gavelapi.WorkerHealth) string { return h.Worker }, nil)
	}
	w := bufio.NewWriter(a.Out)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %s %s\n", a.style.paint(fmt.Sprintf("%-9s", name), dim, a.style.out), clean(fmt.Sprintf(format, args...)))
	}
	status, color := "healthy", green
	switch {
	case h.Away != "":
		status, color = h.Away, yellow
	case len(h.SetAside) > 0:
		status, color = "works, but for what is set aside", yellow
	}
	fmt.Fprintf(w, "worker %s  %s\n", clean(h.Worker), a.style.paint(clean(status), color, a.style.out))
	speed := fmt.Sprintf("%.2f × the fleet's median, drift %+.0f %%", h.SpeedFactor, (h.Drift-1)*100)
	if h.Slow {
		speed += "; slow: kept off tight limits"
	}
	line("speed", "%s", speed)
	if n := len(h.Speeds); n > 1 {
		line("before", "%s", history(h.Speeds))
	}
	if p := h.Hours; p != nil {
		line("sleeps", "%s (%s)", p.Hours, p.Zone)
	}
	if h.ProbesDue > 0 {
		line("probes", "%d still to do", h.ProbesDue)
	}
	for _, s := range h.SetAside {
		who := "the worker"
		if s.Language != "" {
			who = s.Language
		}
		line("set aside", "%s, since %s, probed after %s; %d rounds failed", who, instant(s.Since), instant(s.ProbeAfter), s.FailedRounds)
		line("", "%s", s.Reason)
		evidence(line, s.Evidence)
	}
	if len(h.Faults) > 0 {
		line("faults", "since the last verdict: %d", len(h.Faults))
		evidence(line, h.Faults)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(h.Probes) == 0 {
		return nil
	}
	type P = gavelapi.ProbeResult
	fmt.Fprintln(a.Out)
	return printItems(a, h.Probes, nil, func(p P) string { return strconv.FormatInt(p.ID, 10) }, []column[P]{
		{name: "PROBE", right: true, cell: func(p P) cell { return number(p.ID) }},
		{name: "LANGUAGE", cell: func(p P) cell { return text(p.Language) }},
		{name: "WANT", cell: func(p P) cell { return text(p.Expected) }},
		{name: "GOT", cell: func(p P) cell { return text(orDash(p.Verdict)) }},
		{name: "OUTCOME", cell: func(p P) cell {
			if p.Outcome == "failed" {
				return shade(p.Outcome, red)
			}
			return text(orDash(p.Outcome))
		}},
		{name: "FOR", cell: func(p P) cell { return text(p.Purpose) }},
		{name: "CPU ms", right: true, cell: func(p P) cell { return text(ms(p.CPUUS)) }},
		{name: "TOOK ms", right: true, cell: func(p P) cell { return text(ms(p.TookUS)) }},
		{name: "MESSAGE", flex: 12, cell: func(p P) cell { return text(p.Message) }},
	})
}

// history is the last few speed factors.
func history(points []gavelapi.SpeedPoint) string {
	const most = 8
	var parts []string
	for _, p := range points[max(0, len(points)-most):] {
		parts = append(parts, fmt.Sprintf("%.2f", p.Factor))
	}
	return strings.Join(parts, "  ")
}

func evidence(line func(name, format string, args ...any), list []gavelapi.HealthEvidence) {
	for _, e := range list {
		text := fmt.Sprintf("%s  %s  %s", instant(e.At), e.Case, e.Kind)
		if e.Blame != "" {
			text += " of the " + e.Blame
		}
		if e.Message != "" {
			text += ": " + e.Message
		}
		if !e.Counts {
			text += " (does not count)"
		}
		line("", "%s", text)
	}
}
