package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gavel-oj/gavel/internal/whatif"
)

type simulateCmd struct {
	Trace  string   `arg:"" help:"contest-peak, home-sleeps, rejudge-storm, or a CSV file."`
	Fleet  string   `default:"" placeholder:"NAME" help:"home-and-cloud, home-sleeps, school, or a CSV file; by default what suits the trace."`
	Policy []string `default:"gavel,first-come,pull-lock,pull-yield" help:"Policies to compare: gavel, first-come, pull-lock, pull-yield."`
	Seed   uint64   `default:"1" help:"Of a trace that comes with the program."`
	Plot   string   `placeholder:"FILE" help:"Draw the waiting times as SVG."`
	Output string   `name:"output" short:"o" enum:"table,json,csv" default:"table" help:"Form of the result: ${enum}; csv writes the trace."`
}

// horizon is when a run ends, from the first arrival: what waits then does so for
// ever.
const horizon = 24 * time.Hour

// suits is the fleet for which each trace was made.
var suits = map[string]string{"contest-peak": "school", "home-sleeps": "home-sleeps", "rejudge-storm": "school"}

// Run implements the command.
func (c *simulateCmd) Run(w world) error {
	jobs, known := whatif.Trace(c.Trace, c.Seed)
	if !known {
		var err error
		if jobs, err = readFile(c.Trace, whatif.ReadTrace); err != nil {
			return &failure{exitUsage, err.Error(), "the traces that come with it: " + strings.Join(whatif.Traces(), ", ")}
		}
	}
	if c.Output == "csv" {
		return whatif.WriteTrace(w.out, jobs)
	}
	if c.Fleet == "" {
		if c.Fleet, known = suits[c.Trace]; !known {
			return &failure{exitUsage, "a trace of your own needs --fleet", "a CSV file, or one of those that come with it: " + strings.Join(whatif.Fleets(), ", ")}
		}
	}
	fleet, known := whatif.Fleet(c.Fleet)
	if !known {
		var err error
		if fleet, err = readFile(c.Fleet, whatif.ReadFleet); err != nil {
			return &failure{exitUsage, err.Error(), "the fleets that come with it: " + strings.Join(whatif.Fleets(), ", ")}
		}
	}
	for _, name := range c.Policy {
		if !slices.Contains(whatif.Policies(), name) {
			return &failure{exitUsage, fmt.Sprintf("there is no policy %q", name), "choose from " + strings.Join(whatif.Policies(), ", ")}
		}
	}
	var reports []whatif.Report
	var all [][]whatif.Outcome
	for _, name := range c.Policy {
		if w.ctx.Err() != nil {
			return &failure{code: exitInterrupted, message: "interrupted"}
		}
		out, _ := whatif.Run(name, jobs, fleet, horizon)
		all = append(all, out)
		reports = append(reports, whatif.Summarize(name, out))
	}
	if c.Plot != "" {
		if err := writePlot(c.Plot, c.Trace+" on "+c.Fleet, c.Policy, all); err != nil {
			return &failure{exitFailed, err.Error(), "name a file in a directory that can be written"}
		}
	}
	if c.Output == "json" {
		return writeJSON(w.out, map[string]any{"trace": c.Trace, "fleet": c.Fleet, "seed": c.Seed, "jobs": len(jobs), "policies": reports})
	}
	fmt.Fprintf(w.out, "%s, %d jobs, on %s: how long they waited\n\n", c.Trace, len(jobs), c.Fleet)
	return whatif.WriteTable(w.out, reports)
}

func readFile[T any](name string, read func(io.Reader) (T, error)) (T, error) {
	var none T
	f, err := os.Open(name)
	if err != nil {
		return none, err
	}
	defer f.Close()
	got, err := read(f)
	if err != nil {
		return none, fmt.Errorf("%s: %w", name, err)
	}
	return got, nil
}

func writePlot(name, title string, policies []string, all [][]whatif.Outcome) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := whatif.WriteSVG(f, title, policies, all); err != nil {
		_ = f.Close() // the write's error is the one to tell
		return err
	}
	return f.Close()
}
