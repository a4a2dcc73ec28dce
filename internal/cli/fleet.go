package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
)

// WorkerCmd is `gavel worker`.
type WorkerCmd struct {
	List   WorkerListCmd   `cmd:"" help:"List workers."`
	Invite WorkerInviteCmd `cmd:"" help:"Make a one-time invitation for a new worker."`
	Show   WorkerShowCmd   `cmd:"" help:"Show one worker."`
	Drain  WorkerDrainCmd  `cmd:"" help:"Give it nothing new; what runs goes on."`
	Pause  WorkerPauseCmd  `cmd:"" help:"The same, for somebody who wants it back."`
	Resume WorkerResumeCmd `cmd:"" help:"Give it work again."`
	Label  WorkerLabelCmd  `cmd:"" help:"Set its pool, tags and lanes."`
	Remove WorkerRemoveCmd `cmd:"" help:"Remove it; its token is refused, what it holds goes to others."`
	Health WorkerHealthCmd `cmd:"" help:"Show what was seen of a worker's work: evidence, probes, speed."`
	Reset  WorkerResetCmd  `cmd:"" help:"Forget what counts against a worker: it gets work again at once."`
	Hours  WorkerHoursCmd  `cmd:"" help:"Show or set when a worker is meant to be asleep."`
}

// WorkerListCmd is `gavel worker list`.
type WorkerListCmd struct{}

// Run implements kong's command.
func (cmd *WorkerListCmd) Run(app *App) error {
	c, err := app.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	list, err := c.WorkerList(app.Ctx)
	if err != nil {
		return err
	}
	if len(list.Workers) == 0 && app.OutTerminal {
		app.note("no worker has enrolled yet; invite one with: gavel worker invite")
	}
	type W = gavelapi.WorkerInfo
	return printItems(app, list.Workers, list, func(w W) string { return w.Name }, []column[W]{
		{name: "NAME", flex: 12, cell: func(w W) cell { return text(w.Name) }},
		{name: "POOL", flex: 8, cell: func(w W) cell { return text(w.Pool) }},
		{name: "STATE", cell: func(w W) cell { return shade(w.State, stateColor(w.State)) }},
		{name: "LEASES", right: true, cell: func(w W) cell { return text(fmt.Sprintf("%d/%d", w.Leases, w.Slots)) }},
		{name: "LAST SEEN (UTC)", cell: func(w W) cell {
			if w.LastSeenAt == nil {
				return shade("never", dim)
			}
			return text(instant(*w.LastSeenAt))
		}},
		{name: "LANGUAGES", flex: 10, cell: func(w W) cell { return text(offers(w.Capabilities.Languages)) }},
		{name: "SPEED", wide: true, right: true, cell: func(w W) cell {
			if w.SpeedFactor == 0 {
				return shade("-", dim)
			}
			return text(fmt.Sprintf("%.2f", w.SpeedFactor))
		}},
		{name: "CORES", wide: true, right: true, cell: func(w W) cell { return number(int64(w.Capabilities.Cores)) }},
		{name: "MiB", wide: true, right: true, cell: func(w W) cell { return text(mib(w.Capabilities.MemoryBytes)) }},
		{name: "ARCH", wide: true, cell: func(w W) cell { return text(orDash(w.Capabilities.Arch)) }},
		{name: "BUILD", wide: true, cell: func(w W) cell { return text(orDash(w.Capabilities.Build)) }},
		{name: "SANDBOX", wide: true, cell: func(w W) cell { return text(orDash(w.Capabilities.Sandbox)) }},
		{name: "LACKS", wide: true, cell: func(w W) cell { return text(strings.Join(w.Capabilities.Weaker, ", ")) }},
		{name: "AWAY", wide: true, cell: func(w W) cell { return text(w.Away) }},
	})
}

func offers(list []gavelapi.LanguageOffer) string {
	ids := make([]string, len(list))
	for i, l := range list {
		ids[i] = l.ID
	}
	return orDash(strings.Join(ids, " "))
}

// WorkerInviteCmd is `gavel worker invite`.
type WorkerInviteCmd struct {
	Pool  string        `placeholder:"NAME" help:"Pool of the worker that will use it (default: default)."`
	Valid time.Duration `default:"1h" help:"How long it can be used, at most 168h."`

	Reason string `placeholder:"TEXT" help:"Why; kept in the audit trail."`
}

// Run implements kong's command.
func (cmd *WorkerInviteCmd) Run(app *App) error {
	if err := between("--valid", cmd.Valid, time.Second, 7*24*time.Hour); err != nil {
		return err
	}
	c, err := app.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	inv, err := c.WorkerInvite(app.Ctx, gavelapi.NewInvitation{Pool: cmd.Pool, ValidSeconds: int64(cmd.Valid.Seconds()), Reason: cmd.Reason})
	if err != nil {
		return err
	}
	type I = gavelapi.Invitation
	if err := printItems(app, []I{*inv}, inv, func(i I) string { return i.Code }, []column[I]{
		{name: "INVITATION", cell: func(i I) cell { return text(i.Code) }},
		{name: "POOL", flex: 8, cell: func(i I) cell { return text(i.Pool) }},
		{name: "VALID UNTIL (UTC)", cell: func(i I) cell { return text(instant(i.ExpiresAt)) }},
	}); err != nil {
		return err
	}
	app.note("it is shown only now and works once")
	return nil
}
