// Command gavel-worker is the agent on a judge machine: it takes work from an
// arbiter over HTTP, judges it in boxes, and reports.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"github.com/gavel-oj/gavel/internal/clock"
	"github.com/gavel-oj/gavel/internal/cmdline"
	"github.com/gavel-oj/gavel/internal/sandbox/linuxbox"
)

func main() {
	linuxbox.Init() // first: a box is this program again
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	os.Exit(execute(context.Background(), os.Args[1:], world{
		out: os.Stdout, err: os.Stderr, terminal: term.IsTerminal(int(os.Stderr.Fd())),
		environ: os.Environ(), exit: os.Exit,
		signals: cmdline.Wishes(context.Background(), signals, clock.System{}, syscall.SIGTERM, syscall.SIGINT),
	}))
}

// world is what a run has of the outside.
type world struct {
	out, err io.Writer
	terminal bool // a person reads err
	environ  []string
	signals  <-chan os.Signal
	exit     func(int)
}

// grammar is the command line.
type grammar struct {
	Enroll   enrollCmd   `cmd:"" help:"Trade an invitation for this worker's token, and remember the arbiter."`
	Run      runCmd      `cmd:"" help:"Judge for the arbiter until told to stop."`
	Language languageCmd `cmd:"" help:"List languages, and test them here."`
	Doctor   doctorCmd   `cmd:"" help:"Check this machine, and say how to fix what is missing."`
	Version  versionCmd  `cmd:"" help:"Name the version."`
}

// execute runs one command line and returns the exit code.
func execute(ctx context.Context, args []string, w world) int {
	return cmdline.Program{
		Name: "gavel-worker", Description: "The judge machine's part of gavel. Settings: flag, else environment, else file, else default.",
		Out: w.out, Err: w.err,
		Options: []kong.Option{kong.Bind(w), kong.BindTo(ctx, (*context.Context)(nil))},
	}.Run(&grammar{}, args, func(err error) int { return report(w, err) })
}
