// Command gavel-drill makes abnormal situations happen to real processes and a
// real PostgreSQL on this machine, and shows that nothing is lost. It brings
// everything with it and touches no other gavel.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/alecthomas/kong"

	"github.com/gavel-oj/gavel/internal/clock"
	"github.com/gavel-oj/gavel/internal/cmdline"
	"github.com/gavel-oj/gavel/internal/drill"
)

// Exit codes, as in docs/reference/exit-codes.md.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = cmdline.ExitUsage
	exitNotFound    = 4
	exitInterrupted = 130
)

func main() {
	if code, handled := drill.Role(context.Background(), os.Args[1:], os.Stdin, os.Stderr); handled {
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

type grammar struct {
	List listCmd `cmd:"" help:"List the scenarios."`
	Run  runCmd  `cmd:"" help:"Run scenarios, and show what happened."`
	Load loadCmd `cmd:"" help:"Measure full cycles, waiting claims and a restart beside much open work."`

	Replay   replayCmd   `cmd:"" help:"Act an incident out in four ways of handing out work, on real processes, in compressed time."`
	Simulate simulateCmd `cmd:"" help:"Replay a trace of arrivals under policies of dispatch, and compare the waiting times."`
}

// world is what a command has of the outside.
type world struct {
	ctx      context.Context
	out, err io.Writer
}

// failure is an error with its exit code and a hint.
type failure struct {
	code          int
	message, hint string
}

func (f *failure) Error() string { return f.message }

func execute(ctx context.Context, args []string, out, errOut io.Writer) int {
	return cmdline.Program{
		Name: "gavel-drill", Description: "Harm to real processes on this machine, and proof that no submission is lost by it.",
		Out: out, Err: errOut,
		Options: []kong.Option{kong.Bind(world{ctx: ctx, out: out, err: errOut})},
	}.Run(&grammar{}, args, func(err error) int { return report(err, errOut) })
}

// report prints an error and turns it into the exit code.
func report(err error, errOut io.Writer) int {
	if u, ok := errors.AsType[*cmdline.Usage](err); ok {
		err = &failure{exitUsage, u.Message, u.Hint}
	}
	if err == nil {
		return exitOK
	}
	f, ok := errors.AsType[*failure](err)
	if !ok {
		f = &failure{code: exitFailed, message: err.Error()}
	}
	if f.message != "" {
		fmt.Fprintln(errOut, "gavel-drill:", f.message)
	}
	if f.hint != "" {
		fmt.Fprintln(errOut, "hint:", f.hint)
	}
	return f.code
}

type listCmd struct {
	Output string `name:"output" short:"o" enum:"table,json,id" default:"table" help:"Form of the result: ${enum}."`
}

// listed is a scenario as JSON.
type listed struct {
	Name     string `json:"name"`
	Number   string `json:"number"`
	What     string `json:"what"`
	Fires    string `json:"fires"`
	Sabotage string `json:"sabotage"`
	Mixed    bool   `json:"mixed"` // also with --fleet mixed
}

// Run implements the command.
func (c *listCmd) Run(w world) error {
	all := drill.Sorted()
	switch c.Output {
	case "json":
		rows := make([]listed, len(all))
		for i, s := range all {
			rows[i] = listed{s.Name, s.Number(), s.What, s.Fires, s.Sabotage, s.Mixed}
		}
		return writeJSON(w.out, rows)
	case "id":
		for _, s := range all {
			fmt.Fprintln(w.out, s.Name)
		}
		return nil
	}
	tw := tabwriter.NewWriter(w.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "NO\tSCENARIO\tWHAT IS DONE\tCOUNTER-TEST")
	for _, s := range all {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", s.Number(), s.Name, s.What, s.Sabotage)
	}
	return tw.Flush()
}

type runCmd struct {
	Names    []string `arg:"" optional:"" name:"scenario" help:"Names or numbers, such as a7-leader-frozen or A7."`
	All      bool     `help:"Every scenario."`
	Seed     uint64   `help:"Seed of what is random; 0 picks one and says it." default:"0"`
	Rounds   int      `help:"How much of the repetitions to do, in percent." default:"100"`
	Sabotage bool     `help:"Switch the protections off instead: every scenario must then fail."`
	Fleet    string   `enum:"arbiter,mixed" default:"arbiter" help:"How workers get their work: all from an arbiter, or every other one from the database itself."`
	Keep     bool     `help:"Keep the directories with the logs of all processes."`
	BinDir   string   `name:"bin-dir" placeholder:"DIR" help:"Where gavel and gavel-worker are (default: beside this program)."`
	Build    bool     `help:"Build gavel and gavel-worker first, from the source tree that this is run in."`
	Output   string   `name:"output" short:"o" enum:"table,json" default:"table" help:"Form of the result: ${enum}."`
}

// Run implements the command.
func (c *runCmd) Run(w world) error {
	chosen, err := c.choose()
	if err != nil {
		return err
	}
	if c.Rounds < 1 || c.Rounds > 100_000 {
		return &failure{exitUsage, "--rounds is a percentage from 1 on", "100 is the whole drill"}
	}
	bin, done, err := c.programs(w)
	if err != nil {
		return err
	}
	defer done()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	seed := c.Seed
	if seed == 0 {
		seed = rand.Uint64N(1 << 32) // short enough to type
	}
	fmt.Fprintf(w.err, "seed %d\n", seed)
	prepared, forget, err := prepare(w)
	if err != nil {
		return err
	}
	defer forget()
	options := drill.Options{
		Cluster: prepared,
		Gavel:   filepath.Join(bin, "gavel"), Worker: filepath.Join(bin, "gavel-worker"), Self: self,
		Keep: c.Keep, Fleet: c.Fleet, Seed: seed, Rounds: c.Rounds, Sabotage: c.Sabotage, Clock: clock.System{},
		Note: func(text string) { fmt.Fprintln(w.err, text) },
	}
	results := []drill.Result{} // not nil: JSON has an array
	for _, s := range chosen {
		r := drill.Run(w.ctx, s, options)
		results = append(results, r)
		fmt.Fprintf(w.err, "%s: %s\n", r.Name, r.Verdict)
		if w.ctx.Err() != nil {
			break
		}
	}
	if err := c.show(w, results); err != nil {
		return err
	}
	if w.ctx.Err() != nil {
		return &failure{exitInterrupted, "interrupted; everything that was started is gone", ""}
	}
	for _, r := range results {
		if (r.Verdict == drill.Failed) != c.Sabotage && (c.Sabotage || r.Verdict == drill.Failed) {
			return &failure{code: exitFailed}
		}
	}
	return nil
}

// prepare makes the database that scenarios copy; forget removes it. Without
// PostgreSQL the scenarios say so themselves.
func prepare(w world) (dir string, forget func(), err error) {
	base, err := os.MkdirTemp("", "gavel-drill-cluster-")
	if err != nil {
		return "", nil, err
	}
	forget = func() { _ = os.RemoveAll(base) }    // the system's temporary directory is cleaned anyway
	if err := os.Chmod(base, 0o711); err != nil { // the database's user walks through
		forget()
		return "", nil, err
	}
	dir = filepath.Join(base, "pg")
	if err := drill.PrepareCluster(w.ctx, dir); err != nil {
		fmt.Fprintln(w.err, "no database could be prepared:", err)
		return "", forget, nil
	}
	return dir, forget, nil
}

func (c *runCmd) show(w world, results []drill.Result) error {
	switch {
	case c.Output == "json":
		return writeJSON(w.out, results)
	case c.Sabotage:
		return drill.SabotageTable(w.out, results)
	}
	return drill.Table(w.out, results)
}

func (c *runCmd) choose() ([]drill.Scenario, error) {
	if c.All == (len(c.Names) > 0) {
		return nil, &failure{exitUsage, "name scenarios, or give --all", "gavel-drill list shows them"}
	}
	var chosen []drill.Scenario
	if c.All {
		chosen = drill.Sorted()
	}
	for _, name := range c.Names {
		found := drill.Find(name)
		if len(found) == 0 {
			return nil, &failure{exitNotFound, fmt.Sprintf("there is no scenario %q", name), "gavel-drill list shows them"}
		}
		chosen = append(chosen, found...)
	}
	if c.Fleet == drill.FleetMixed {
		if chosen = slices.DeleteFunc(chosen, func(s drill.Scenario) bool { return !s.Mixed }); len(chosen) == 0 {
			return nil, &failure{exitUsage, "none of these can be run with a mixed fleet", "gavel-drill list -o json shows which can"}
		}
	}
	return chosen, nil
}

// programs finds or builds the programs; done removes what was built.
func (c *runCmd) programs(w world) (dir string, done func(), err error) {
	done = func() {}
	if c.Build {
		if dir, err = os.MkdirTemp("", "gavel-drill-bin-"); err != nil {
			return "", done, err
		}
		done = func() { _ = os.RemoveAll(dir) } // the system's temporary directory is cleaned anyway
		cmd := exec.CommandContext(w.ctx, "go", "build", "-o", dir+"/", "github.com/gavel-oj/gavel/cmd/gavel", "github.com/gavel-oj/gavel/cmd/gavel-worker")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			done()
			return "", func() {}, fmt.Errorf("build: %w\n%s", err, strings.TrimSpace(string(out)))
		}
		return dir, done, os.Chmod(dir, 0o755)
	}
	if dir = c.BinDir; dir == "" {
		self, err := os.Executable()
		if err != nil {
			return "", done, fmt.Errorf("find this program: %w", err)
		}
		dir = filepath.Dir(self)
	}
	for _, name := range []string{"gavel", "gavel-worker"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return "", done, &failure{exitFailed, fmt.Sprintf("the program %s is not in %s", name, dir), "make build makes it; or give --bin-dir, or --build in the source tree"}
		}
	}
	return dir, done, nil
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
