package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/buildinfo"
	"github.com/gavel-oj/gavel/internal/doctor"
	"github.com/gavel-oj/gavel/internal/sandbox/linuxbox"
)

type doctorCmd struct {
	common

	Output string `short:"o" enum:"table,json" default:"table" help:"Form of the result: ${enum}."`
}

// Run implements the command.
func (c *doctorCmd) Run(ctx context.Context, w world) error {
	s, err := resolve(c.common, given{}, w.environ)
	if err != nil {
		return err
	}
	checks := doctor.Run(ctx, doctor.Options{Box: true, DataDir: s.stateDir, DirFlag: "--state-dir", Boxes: linuxbox.Weaknesses, Degraded: s.degraded})
	checks = append(checks, s.arbiterCheck(ctx))
	if c.Output == "json" {
		err = json.NewEncoder(w.out).Encode(map[string]any{"checks": checks, "worst": doctor.Worst(checks)})
	} else {
		err = doctor.Print(w.out, checks)
	}
	if err == nil && doctor.Worst(checks) == doctor.Fail {
		err = &failure{code: exitFailed}
	}
	return err
}

// arbiterCheck asks the arbiter, if one is known.
func (s *settings) arbiterCheck(ctx context.Context) doctor.Check {
	check := doctor.Check{Name: "arbiter", Status: doctor.OK}
	if s.url == "" {
		check.Status, check.Detail, check.Fix = doctor.Warn, "no address is known", "give it with --url or GAVEL_URL, or enrol this worker"
		return check
	}
	c, err := s.client("")
	if err == nil {
		defer c.Close()
		var v *gavelapi.Version
		if v, err = c.Version(ctx); err == nil {
			check.Detail = fmt.Sprintf("version %s answers at %s", v.Version, c.URL())
			if v.Protocol != gavelapi.ProtocolVersion {
				check.Status, check.Fix = doctor.Fail, "install gavel-worker of the arbiter's release"
				check.Detail += fmt.Sprintf(", and speaks worker protocol %d; this program speaks %d", v.Protocol, gavelapi.ProtocolVersion)
			}
			return check
		}
	}
	f := explain(err)
	check.Status, check.Detail, check.Fix = doctor.Fail, f.message, f.hint
	return check
}

type versionCmd struct {
	Output string `short:"o" enum:"table,json" default:"table" help:"Form of the result: ${enum}."`
}

// Run implements the command.
func (c *versionCmd) Run(w world) error {
	if c.Output == "json" {
		return json.NewEncoder(w.out).Encode(gavelapi.Version{
			Version: buildinfo.Version, Commit: buildinfo.Commit, Go: buildinfo.Go, Protocol: gavelapi.ProtocolVersion,
		})
	}
	fmt.Fprintln(w.out, buildinfo.String("gavel-worker"))
	return nil
}
