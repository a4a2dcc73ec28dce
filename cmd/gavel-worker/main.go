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

	"github.com/gavel-oj/gavel/internal/sandbox/linuxbox"
)

func main() {
	linuxbox.Init() // first: a box is this program again
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	os.Exit(execute(context.Background(), os.Args[1:], world{
		out: os.Stdout, err: os.Stderr, terminal: term.IsTerminal(int(os.Stderr.Fd())),
		environ: os.Environ(), signals: signals, exit: os.Exit,
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

// exited unwinds kong when it wants to end the program after --help.
type exited int

// execute runs one command line and returns the exit code.
func execute(ctx context.Context, args []string, w world) (code int) {
	var g grammar
	parser, err := kong.New(&g,
		kong.Name("gavel-worker"),
		kong.Description("The judge machine's part of gavel. Settings: flag, else environment, else file, else default."),
		kong.Writers(w.out, w.err),
		kong.Exit(func(code int) { panic(exited(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Bind(w),
		kong.BindTo(ctx, (*context.Context)(nil)),
	)
	if err != nil {
		panic(err) // the grammar is wrong: a programmer's mistake that every test meets
	}
	defer func() {
		if r := recover(); r != nil {
			c, ok := r.(exited)
			if !ok {
				panic(r)
			}
			code = int(c)
		}
	}()
	if len(args) == 0 {
		args = []string{"--help"}
	}
	kctx, err := parser.Parse(args)
	if err != nil {
		return report(w, usage("gavel-worker --help shows the usage", "%v", err))
	}
	return report(w, kctx.Run())
}
