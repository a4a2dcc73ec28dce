// Command gavel is the command line of gavel: it hands in sources, shows
// verdicts, publishes problems and looks after workers.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/gavel-oj/gavel/internal/cli"
	"github.com/gavel-oj/gavel/internal/clock"
	"github.com/gavel-oj/gavel/internal/cmdline"
	"github.com/gavel-oj/gavel/internal/sandbox/linuxbox"
)

// commands is the whole grammar: those that run a server, and the client's.
type commands struct {
	cli.Commands

	Up    cli.UpCmd    `cmd:"" help:"Start everything on this machine: a private PostgreSQL, the arbiter, a worker; judge the examples."`
	Serve cli.ServeCmd `cmd:"" help:"Run an arbiter on an existing PostgreSQL."`

	Config cli.ConfigCmd `cmd:"" help:"Look at the settings of serve and up, and check them."`

	EdgeWorker cli.EdgeWorkerCmd `cmd:"" help:"Judge straight from the database, without an arbiter."`
}

func main() {
	linuxbox.Init() // first: a box is this program again
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	wishes := cmdline.Wishes(context.Background(), signals, clock.System{}, os.Interrupt, syscall.SIGTERM)
	ctx, stop := cmdline.UntilWish(context.Background(), wishes, func(sig os.Signal) {
		signal.Reset() // the signal itself ends the program at once
		if p, err := os.FindProcess(os.Getpid()); err == nil {
			_ = p.Signal(sig)
		}
	})
	defer stop()
	grammar := &commands{}
	code := cli.Run(ctx, grammar, &grammar.Globals, os.Args[1:], streams())
	stop()
	os.Exit(code)
}

// program is how to call this again: as it was called when that was by a path
// in a folder that the person stands in or above, else by its name on PATH.
func program(arg0 string) string {
	if strings.ContainsRune(arg0, '/') && !filepath.IsAbs(arg0) {
		return arg0
	}
	return filepath.Base(arg0)
}

func streams() cli.Streams {
	s := cli.Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Environ: os.Environ(), Program: program(os.Args[0]),
		OutTerminal: term.IsTerminal(int(os.Stdout.Fd())), ErrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
	}
	if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
		s.Columns = width
	} else if width, _, err := term.GetSize(int(os.Stderr.Fd())); err == nil {
		s.Columns = width
	}
	return s
}
