package main

import (
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/gavel-oj/gavel/internal/clock"
	"github.com/gavel-oj/gavel/internal/drill"
)

type loadCmd struct {
	Workers int           `default:"200" help:"Workers that claim, heartbeat and report in a circle."`
	For     time.Duration `default:"10s" help:"How long they do."`
	Claims  int           `default:"10000" help:"Claims that wait for work which never comes; each needs a file descriptor in both programs."`
	Pending int           `default:"100000" help:"Jobs that wait when the arbiter starts again."`
	Leased  int           `default:"1000" help:"Jobs that are leased then; not more than claims."`
	Keep    bool          `help:"Keep the directory with the logs of all processes."`
	BinDir  string        `name:"bin-dir" placeholder:"DIR" help:"Where gavel and gavel-worker are (default: beside this program)."`
	Build   bool          `help:"Build gavel and gavel-worker first, from the source tree that this is run in."`
	Output  string        `name:"output" short:"o" enum:"table,json" default:"table" help:"Form of the result: ${enum}."`
}

// Run implements the command.
func (c *loadCmd) Run(w world) error {
	if c.Workers < 1 || c.Workers > 999 || c.Claims < 1 || c.Claims > 99_999 || c.Pending < 1 || c.Leased < 0 || c.Leased > c.Claims || c.For < time.Second {
		return &failure{exitUsage, "these sizes cannot be measured", "1 to 999 workers for a second or more, 1 to 99999 claims, 1 pending or more, leased up to claims"}
	}
	bin, done, err := (&runCmd{BinDir: c.BinDir, Build: c.Build}).programs(w)
	if err != nil {
		return err
	}
	defer done()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	r := drill.Load(w.ctx, drill.LoadSizes{Workers: c.Workers, For: c.For, Claims: c.Claims, Pending: c.Pending, Leased: c.Leased}, drill.Options{
		Gavel: filepath.Join(bin, "gavel"), Worker: filepath.Join(bin, "gavel-worker"), Self: self, Keep: c.Keep, Clock: clock.System{},
		Note: func(text string) { fmt.Fprintln(w.err, text) },
	})
	if c.Output == "json" {
		err = writeJSON(w.out, r)
	} else {
		tw := tabwriter.NewWriter(w.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(tw, "MEASURED\tVALUE\tLIMIT")
		for _, f := range r.Figures {
			limit := "-"
			if f.Limit > 0 {
				limit = fmt.Sprintf("%.4g %s", f.Limit, f.Unit)
			}
			fmt.Fprintf(tw, "%s\t%.4g %s\t%s\n", f.Name, f.Value, f.Unit, limit)
		}
		err = tw.Flush()
	}
	if err != nil {
		return err
	}
	if w.ctx.Err() != nil {
		return &failure{exitInterrupted, "interrupted; everything that was started is gone", ""}
	}
	if r.Verdict == drill.Skipped {
		return &failure{exitFailed, fmt.Sprintf("nothing could be measured: %v", r.Why), ""}
	}
	if r.Verdict != drill.OK {
		return &failure{exitFailed, fmt.Sprintf("%q", r.Why), "its logs are in " + r.Dir}
	}
	return nil
}
