package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/alecthomas/kong"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/internal/cmdline"
)

// Streams is what a run has of the world.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	// OutTerminal and ErrTerminal say whether a person looks at them.
	OutTerminal, ErrTerminal bool
	// Columns is the width of the terminal, 0 when unknown.
	Columns int
	Getenv  func(string) string
	Environ []string // what a process started by a command inherits
	// Program is how it was called, for commands to paste; "" is gavel.
	Program string
	// HTTP makes the calls; nil is the client's own.
	HTTP *http.Client
}

// Commands are the client's commands. A program embeds them beside its own.
type Commands struct {
	Globals

	Submit     SubmitCmd     `cmd:"" help:"Hand in a source file."`
	Run        RunCmd        `cmd:"" help:"Run a program on inputs of your own, without a problem."`
	Submission SubmissionCmd `cmd:"" help:"Look at submissions, watch or cancel one."`
	Rejudge    RejudgeCmd    `cmd:"" help:"Judge submissions again, see what would change, apply it."`
	Account    AccountCmd    `cmd:"" help:"Look at what a user has solved."`
	Problem    ProblemCmd    `cmd:"" help:"Publish problem packages and look at them."`
	Worker     WorkerCmd     `cmd:"" help:"Look at workers, invite, drain, pause, label and remove them."`
	Pool       PoolCmd       `cmd:"" help:"Say which workers are preferred."`
	Queue      QueueCmd      `cmd:"" help:"Look at what waits, hold it, let it go, put something in front."`
	Alarm      AlarmCmd      `cmd:"" help:"Look at what deserves attention, and what did."`
	Webhook    WebhookCmd    `cmd:"" help:"Say who is told of alarms, and see what was sent."`
	Audit      AuditCmd      `cmd:"" help:"Look at what operators did."`
	Fleet      FleetCmd      `cmd:"" help:"See how the machines get their work."`
	Language   LanguageCmd   `cmd:"" help:"List languages and who offers them."`
	Judge      JudgeCmd      `cmd:"" help:"Judge sources on a package here, without a server."`
	Doctor     DoctorCmd     `cmd:"" help:"Check this machine and the arbiter, and say how to fix what is missing."`
	Version    VersionCmd    `cmd:"" help:"Name the version."`
}

// Globals are the flags that every command has.
type Globals struct {
	URL       string `name:"url" placeholder:"URL" help:"Address of the arbiter ($$GAVEL_URL; default ${default_url})."`
	TokenFile string `name:"token-file" placeholder:"FILE" help:"File that holds the token ($$GAVEL_TOKEN holds the token itself, $$GAVEL_TOKEN_FILE names a file)."`
	Output    string `name:"output" short:"o" enum:"table,wide,json,jsonl,id" default:"table" help:"Form of the result: ${enum}."`
}

// App is what a command's Run gets: the flags and the world.
type App struct {
	Streams
	*Globals
	Ctx   context.Context
	style style
}

// Run parses args into grammar, which embeds Commands, runs the command, and
// returns the exit code. globals points at the Globals in grammar.
func Run(ctx context.Context, grammar any, globals *Globals, args []string, s Streams) int {
	app := &App{Streams: s, Globals: globals, Ctx: ctx, style: newStyle(s)}
	return cmdline.Program{
		Name: "gavel", Description: "The judging back end of an online judge: submissions in, verdicts out, nothing lost.",
		Out: s.Out, Err: s.Err,
		Options: []kong.Option{
			kong.Vars{"default_url": DefaultURL},
			kong.Bind(app),
			kong.BindTo(ctx, (*context.Context)(nil)),
		},
	}.Run(grammar, args, app.report)
}

// report prints an error and turns it into the exit code.
func (a *App) report(err error) int {
	if err == nil {
		return ExitOK
	}
	e := a.explain(err)
	if e.Message != "" {
		fmt.Fprintf(a.Err, "%s %s\n", a.style.paint("gavel:", red, a.style.err), clean(e.Message))
		if e.Hint != "" {
			fmt.Fprintf(a.Err, "%s %s\n", a.style.paint("hint:", bold, a.style.err), clean(e.Hint))
		}
	}
	return e.Code
}

// connect makes the client for the arbiter that the flags and the environment
// name.
func (a *App) connect() (*client.Client, error) {
	token, err := a.token()
	if err != nil {
		return nil, err
	}
	c, err := client.New(a.url(), token, client.Options{UserAgent: "gavel", HTTP: a.HTTP})
	if err != nil {
		return nil, usage("set --url or GAVEL_URL, and GAVEL_TOKEN or --token-file", "%v", err)
	}
	return c, nil
}

// forPeople says that the result is not in a form for programs.
func (a *App) forPeople() bool { return a.Output == "table" || a.Output == "wide" }

// program is what to type to call this program again.
func (a *App) program() string { return cmp.Or(a.Program, "gavel") }

// note says something beside the result.
func (a *App) note(format string, args ...any) {
	fmt.Fprintln(a.Err, clean(fmt.Sprintf(format, args...)))
}
