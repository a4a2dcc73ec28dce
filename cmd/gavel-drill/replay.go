package main

import (
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gavel-oj/gavel/internal/clock"
	"github.com/gavel-oj/gavel/internal/drill"
	"github.com/gavel-oj/gavel/internal/timeline"
)

type replayCmd struct {
	Story    string        `arg:"" optional:"" help:"five-nights or sep-17; without one they are listed."`
	Factor   float64       `default:"20" help:"How much quicker than the incident it goes. All times and limits are shortened by it."`
	Slack    time.Duration `default:"300ms" help:"How much this machine may add to any time, as measured."`
	SVG      string        `name:"svg" placeholder:"FILE" help:"Draw the timelines."`
	Sabotage bool          `help:"The counter-test: leave out what went wrong in the old way, and put it into edge pull; both must be noticed."`
	Keep     bool          `help:"Keep the directories with the logs of all processes."`
	Output   string        `name:"output" short:"o" enum:"table,json" default:"table" help:"Form of the result: ${enum}."`
}

// Run implements the command.
func (c *replayCmd) Run(w world) error {
	if c.Story == "" {
		return c.list(w)
	}
	story, ok := drill.FindStory(c.Story)
	if !ok {
		return &failure{exitNotFound, fmt.Sprintf("there is no replay %q", c.Story), "gavel-drill replay lists them"}
	}
	if c.Factor < drill.Factors[0] || c.Factor > drill.Factors[1] {
		return &failure{exitUsage, "--factor is out of range", fmt.Sprintf("give a factor from %.0f to %.0f", drill.Factors[0], drill.Factors[1])}
	}
	if c.Slack < 0 || c.Slack > time.Minute {
		return &failure{exitUsage, "--slack is out of range", "give a duration of at most a minute, such as 500ms on a busy machine"}
	}
	var plot *os.File
	if c.SVG != "" { // before the minutes that it takes
		var err error
		if plot, err = os.Create(c.SVG); err != nil {
			return &failure{exitFailed, err.Error(), "name a file in a directory that can be written"}
		}
		defer plot.Close()
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	prepared, forget, err := prepare(w)
	if err != nil {
		return err
	}
	defer forget()
	r, verdict := drill.Replay(w.ctx, story, drill.ReplayOptions{
		Factor: c.Factor, Slack: c.Slack,
		Options: drill.Options{
			Cluster: prepared, Self: self, Keep: c.Keep, Sabotage: c.Sabotage, Clock: clock.System{},
			Note: func(text string) { fmt.Fprintln(w.err, text) },
		},
	})
	if err := c.show(w, &r, plot); err != nil {
		return err
	}
	switch {
	case w.ctx.Err() != nil:
		return &failure{exitInterrupted, "interrupted; everything that was started is gone", ""}
	case verdict == drill.Skipped:
		return &failure{exitFailed, "nothing could be replayed: " + strings.Join(r.Why, "; "), "gavel-drill needs PostgreSQL's server programs"}
	case c.Sabotage && !drill.Noticed(&r, story, c.Slack):
		return &failure{exitFailed, "the counter-test was not noticed: the replay cannot fail", ""}
	case !c.Sabotage && verdict != drill.OK:
		return &failure{exitFailed, "not as it should be:\n  " + strings.Join(r.Why, "\n  "), "a busy machine adds its own delays: try a lower --factor, or more --slack"}
	}
	return nil
}

// show writes the result, as far as it has come.
func (c *replayCmd) show(w world, r *timeline.Replay, plot *os.File) error {
	if plot != nil {
		if err := r.WriteSVG(plot); err != nil {
			return err
		}
	}
	if c.Output == "json" {
		return writeJSON(w.out, r)
	}
	if len(r.Ways) == 0 {
		return nil // there is nothing to show; why is said at the end
	}
	fmt.Fprintf(w.out, "%s: %s\n", r.Story, r.Title)
	fmt.Fprintf(w.out, "%g times as fast; times are those of the incident, (as measured)\n", r.Factor)
	fmt.Fprintf(w.out, "this machine's own delays lengthen each of them; up to %s (%s) are let pass\n\n",
		timeline.Short(time.Duration(float64(c.Slack)*r.Factor)), c.Slack)
	if err := r.WriteText(w.out); err != nil {
		return err
	}
	fmt.Fprintln(w.out)
	if err := r.WriteTable(w.out); err != nil {
		return err
	}
	if c.Sabotage {
		for _, why := range r.Why {
			fmt.Fprintln(w.out, "noticed: "+why)
		}
	}
	return nil
}

// listedStory is a replay as JSON.
type listedStory struct {
	Name     string `json:"name"`
	What     string `json:"what"`
	Sabotage string `json:"sabotage"`
}

func (c *replayCmd) list(w world) error {
	var rows []listedStory
	for _, s := range drill.Stories() {
		rows = append(rows, listedStory{s.Name, s.What, s.Sabotage})
	}
	if c.Output == "json" {
		return writeJSON(w.out, rows)
	}
	tw := tabwriter.NewWriter(w.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "REPLAY\tWHAT HAPPENS")
	for _, r := range rows {
		fmt.Fprintf(tw, "%s\t%s\n", r.Name, r.What)
	}
	return tw.Flush()
}
