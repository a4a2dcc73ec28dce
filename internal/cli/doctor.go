package cli

import (
	"maps"
	"slices"
	"strings"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/buildinfo"
	"github.com/gavel-oj/gavel/internal/doctor"
	"github.com/gavel-oj/gavel/internal/sandbox/linuxbox"
)

// DoctorCmd is `gavel doctor`.
type DoctorCmd struct {
	For     string `enum:"all,arbiter,worker,client" default:"all" help:"What this machine is meant to do: ${enum}."`
	DataDir string `default:".data" placeholder:"DIR" help:"Where the arbiter keeps its data (default ${default})."`
}

// Run implements kong's command.
func (cmd *DoctorCmd) Run(app *App) error {
	var checks []doctor.Check
	if cmd.For != "client" {
		opts := doctor.Options{Box: cmd.For != "arbiter", Boxes: linuxbox.Weaknesses, Database: cmd.For != "worker"}
		if opts.Database {
			opts.DataDir = cmd.DataDir
		}
		checks = doctor.Run(app.Ctx, opts)
	}
	checks = append(checks, app.serverChecks(cmd.For == "client" || app.urlGiven())...)
	if err := app.printChecks(checks); err != nil {
		return err
	}
	if doctor.Worst(checks) == doctor.Fail {
		return &Error{Code: ExitFailed}
	}
	return nil
}

func (a *App) printChecks(checks []doctor.Check) error {
	if a.Output == "table" || a.Output == "wide" {
		return doctor.Print(a.Out, checks)
	}
	return printItems(a, checks, map[string]any{"checks": checks, "worst": doctor.Worst(checks)},
		func(c doctor.Check) string { return c.Name }, nil)
}

// serverChecks asks the arbiter. That none runs at the default address is only
// worth a warning: it may be about to be started.
func (a *App) serverChecks(wanted bool) []doctor.Check {
	const name = "arbiter"
	away := doctor.Warn
	if wanted {
		away = doctor.Fail
	}
	c, err := a.connect()
	if err != nil {
		e := a.explain(err)
		return []doctor.Check{{Name: name, Status: doctor.Fail, Detail: clean(e.Message), Fix: e.Hint}}
	}
	defer c.Close()
	v, err := c.Version(a.Ctx)
	if err != nil {
		e := a.explain(err)
		return []doctor.Check{{Name: name, Status: away, Detail: clean(e.Message), Fix: e.Hint}}
	}
	checks := []doctor.Check{versionCheck(v, c.URL()), a.readyCheck(c), a.tokenCheck(c)}
	for i := range checks {
		checks[i].Detail = clean(checks[i].Detail)
	}
	return checks
}

func versionCheck(v *gavelapi.Version, at string) doctor.Check {
	c := doctor.Check{Name: "arbiter", Status: doctor.OK, Detail: "version " + v.Version + " answers at " + at}
	switch {
	case v.Protocol != gavelapi.ProtocolVersion:
		c.Status, c.Fix = doctor.Fail, "install gavel and gavel-worker of the arbiter's release"
		c.Detail += ", and speaks another worker protocol than this program"
	case v.Version != buildinfo.Version:
		c.Status, c.Fix = doctor.Warn, "install the same release here and there"
		c.Detail += ", and this program is " + buildinfo.Version
	}
	return c
}

func (a *App) readyCheck(c *client.Client) doctor.Check {
	check := doctor.Check{Name: "arbiter ready", Status: doctor.OK, Detail: "it takes submissions and hands work out"}
	h, err := c.Ready(a.Ctx)
	if err != nil {
		e := a.explain(err)
		check.Status, check.Detail, check.Fix = doctor.Fail, e.Message, e.Hint
		return check
	}
	if h.Status != "ok" {
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(h.Checks)) {
			if h.Checks[k] != "ok" {
				parts = append(parts, k+": "+h.Checks[k])
			}
		}
		check.Status, check.Detail = doctor.Fail, "it does not hand work out: "+strings.Join(parts, "; ")
		check.Fix = "look into the arbiter's log; it becomes ready by itself when the cause is gone"
	}
	return check
}

func (a *App) tokenCheck(c *client.Client) doctor.Check {
	check := doctor.Check{Name: "token", Status: doctor.OK, Detail: "the arbiter takes it"}
	if _, err := c.LanguageList(a.Ctx); err != nil {
		e := a.explain(err)
		check.Status, check.Detail, check.Fix = doctor.Fail, e.Message, e.Hint
	}
	return check
}
