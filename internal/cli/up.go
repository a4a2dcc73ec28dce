package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lmittmann/tint"

	"github.com/gavel-oj/gavel/examples"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/pgserver/pgbin"
	"github.com/gavel-oj/gavel/internal/sandbox/linuxbox"
	"github.com/gavel-oj/gavel/internal/serve"
	"github.com/gavel-oj/gavel/internal/up"
)

// UpCmd starts everything on this machine.
type UpCmd struct {
	Config     string `placeholder:"FILE" help:"Settings file ($$GAVEL_CONFIG; default gavel.yaml in the data directory, if it is there). Flags and GAVEL_* variables win over it."`
	DataDir    string `name:"data-dir" placeholder:"DIR" help:"Where everything is kept: database, packages, the worker's files, logs, the administrator's token (default .data)."`
	Listen     string `name:"listen" placeholder:"ADDR" help:"Address to listen on; port 0 picks a free one (default 127.0.0.1:7272)."`
	Slots      string `name:"slots" placeholder:"N" help:"Submissions judged at once; 0, the default, lets the worker choose from the machine's cores."`
	RunKeep    string `name:"run-keep" placeholder:"TIME" help:"How long the results of runs are kept (default 1h)."`
	MaxWaiting string `name:"max-waiting-per-user" placeholder:"N" help:"Submissions and runs that one user may have waiting at once; more are refused. 0, the default, is any number."`
	Private    bool   `name:"webhook-private" help:"Webhooks may go to addresses that are not public."`
	NoSamples  bool   `name:"no-samples" xor:"samples" help:"Do not import and judge the example problems."`
	Samples    bool   `name:"samples" xor:"samples" help:"Judge the example problems although this build did so on this data before."`
	Once       bool   `name:"once" help:"Stop when the examples are judged; exit code 0 when every verdict is as declared."`
}

// Run implements the command.
func (c *UpCmd) Run(a *App) error {
	flags := map[string]string{"data_dir": c.DataDir, "listen": c.Listen, "slots": c.Slots, "run_keep": c.RunKeep, "max_waiting_per_user": c.MaxWaiting}
	if c.NoSamples {
		flags["no_samples"] = "true"
	}
	if c.Private {
		flags["webhook_private"] = "true"
	}
	v, err := a.resolve("up", c.Config, flags)
	if err != nil {
		return err
	}
	a.warn(v)
	dataDir := v.Text("data_dir")
	// Whatever can be refused is refused here, before anything is made.
	worker, err := findWorker()
	if err != nil {
		return err
	}
	if _, err := pgbin.Find(a.Ctx, pgbin.Options{}); err != nil {
		return serverError(err)
	}
	if err := canMakeBoxes(); err != nil {
		return err
	}
	listener, err := serve.Listen(a.Ctx, v.Text("listen"))
	if err != nil {
		return serverError(err)
	}
	defer listener.Close()
	log, closeLog, err := a.serverLog(dataDir)
	if err != nil {
		return err
	}
	defer closeLog()
	cfg := up.Config{
		DataDir: dataDir, Listen: v.Text("listen"), Listener: listener, Slots: int(v.Number("slots")), Worker: worker,
		Once: c.Once, Again: c.Samples, Logger: log, Environ: a.Environ,
		RunKeep: v.Duration("run_keep"), MaxWaitingPerUser: int(v.Number("max_waiting_per_user")), WebhookPrivate: v.Switch("webhook_private"),
	}
	samples := !v.Switch("no_samples")
	if samples {
		if cfg.Examples, err = examples.Problems(); err != nil {
			return err
		}
	}
	view := &upView{app: a, live: &liveLine{app: a}, samples: samples}
	defer context.AfterFunc(a.Ctx, func() { a.note("stopping in order; Ctrl-C again stops at once") })()
	err = up.Run(a.Ctx, cfg, view)
	view.live.clear()
	if errors.Is(err, up.ErrNotAsDeclared) {
		return &Error{Code: ExitFailed, Message: err.Error(), Hint: "the rows marked ✗ above; gavel.log and worker.log in " + dataDir + " say more"}
	}
	if err == nil && a.Ctx.Err() != nil {
		a.note("stopped")
	}
	return serverError(err)
}

// canMakeBoxes opens the sandbox as the worker will, for the same refusal in
// the same words, seconds earlier.
func canMakeBoxes() error {
	dir, err := os.MkdirTemp("", "gavel-up-")
	if err != nil {
		return failed("make room, or set TMPDIR", "cannot make a temporary directory: %s", reason(err))
	}
	defer os.RemoveAll(dir)
	provider, err := linuxbox.Open(linuxbox.Config{TempDir: dir})
	if err != nil {
		return boxError(err)
	}
	return provider.Close()
}

// findWorker looks for gavel-worker beside this program, then on PATH.
func findWorker() (string, error) {
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), "gavel-worker")
		if _, err := os.Stat(beside); err == nil {
			return beside, nil
		}
	}
	path, err := exec.LookPath("gavel-worker")
	if err != nil {
		return "", &Error{Code: ExitFailed, Message: "the program gavel-worker is neither beside gavel nor on PATH", Hint: "make build builds both"}
	}
	return path, nil
}

// serverLog logs everything to a file and what needs a person to the terminal.
func (a *App) serverLog(dataDir string) (*slog.Logger, func(), error) {
	if err := os.MkdirAll(dataDir, 0o711); err != nil {
		return nil, nil, serverError(apperr.Wrap(err, apperr.Forbidden, "choose a directory that this user may write with --data-dir",
			"the data directory %s cannot be made", dataDir))
	}
	f, err := os.OpenFile(up.LogFile(dataDir), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, serverError(apperr.Wrap(err, apperr.Forbidden, "choose a directory that this user may write with --data-dir",
			"the data directory %s is not writable", dataDir))
	}
	toFile := slog.NewJSONHandler(f, &slog.HandlerOptions{Level: slog.LevelInfo})
	toPerson := tint.NewTextHandler(a.Err, &tint.Options{Level: slog.LevelError, TimeFormat: "15:04:05", NoColor: !a.style.err})
	return slog.New(slog.NewMultiHandler(toFile, toPerson)), func() { _ = f.Close() }, nil
}

// serverError gives the errors of starting a server their exit codes.
func serverError(err error) error {
	e, ok := errors.AsType[*apperr.Error](err)
	if !ok {
		return err
	}
	message := e.Message
	if e.Field != "" {
		message = e.Field + ": " + message
	}
	if e.Err != nil { // the operator is the one who reads this; the middle of the chain repeats the ends
		message += ": " + root(e.Err).Error()
	}
	return &Error{Code: codeExit(e.Code), Message: message, Hint: e.Hint, cause: err}
}

// root is the innermost cause. Where a server was asked in several ways, with TLS
// and without, what it said itself tells more than that it has no TLS.
func root(err error) error {
	if said, ok := errors.AsType[*pgconn.PgError](err); ok {
		return said
	}
	for {
		switch u := err.(type) { //nolint:errorlint // this walks the chain itself
		case interface{ Unwrap() error }:
			if u.Unwrap() == nil {
				return err
			}
			err = u.Unwrap()
		case interface{ Unwrap() []error }:
			if len(u.Unwrap()) == 0 {
				return err
			}
			err = u.Unwrap()[0]
		default:
			return err
		}
	}
}

// upView shows a person how it goes: chatter on standard error, the table of
// verdicts on standard output.
type upView struct {
	app     *App
	live    *liveLine
	samples bool // the examples are there to be tried
}

func (v *upView) Step(text string) {
	v.live.clear()
	v.app.note("%s %s", v.app.style.paint("▸", cyan, v.app.style.err), text)
}

func (v *upView) Progress(done, total int, verdicts map[string]int) {
	names := make([]string, 0, len(verdicts))
	for name := range verdicts {
		names = append(names, name)
	}
	sort.Strings(names)
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = fmt.Sprintf("%s %d", name, verdicts[name])
	}
	kind := fmt.Sprint(done * 4 / total) // into a file: a line for each quarter
	v.live.show(fmt.Sprintf("  judged %d of %d   %s", done, total, strings.Join(parts, "  ")), kind)
}

func (v *upView) Judged(results []up.Sample) {
	v.live.clear()
	cols := []column[up.Sample]{
		{name: "PROBLEM", flex: 10, cell: func(s up.Sample) cell { return text(s.Problem) }},
		{name: "SUBMISSION", flex: 16, cell: func(s up.Sample) cell { return text(strings.TrimPrefix(s.Path, "submissions/")) }},
		{name: "LANG", cell: func(s up.Sample) cell { return text(s.Language) }},
		{name: "VERDICT", cell: func(s up.Sample) cell { return shade(s.Submission.Verdict, verdictColor(s.Submission.Verdict)) }},
		{name: "DECLARED", cell: func(s up.Sample) cell {
			mark, c := "✓ ", green
			if !s.AsDeclared() {
				mark, c = "✗ ", red
			}
			return shade(mark+strings.Join(s.Expected, "|"), c)
		}},
		{name: "CPU MS", right: true, cell: func(s up.Sample) cell { return text(ms(s.Submission.CPUUS)) }},
		{name: "MIB", right: true, cell: func(s up.Sample) cell { return text(mib(s.Submission.MemoryBytes)) }},
		{name: "TESTS", right: true, cell: func(s up.Sample) cell { return text(testsRun(s.Submission)) }},
		{name: "ID", right: true, wide: true, cell: func(s up.Sample) cell { return number(s.Submission.ID) }},
	}
	id := func(s up.Sample) string { return fmt.Sprint(s.Submission.ID) }
	if err := printItems(v.app, results, results, id, cols); err != nil {
		v.app.note("writing the table failed: %v", err)
	}
	good := 0
	for _, r := range results {
		if r.AsDeclared() {
			good++
		}
	}
	v.app.note("%d of %d verdicts are as declared", good, len(results))
}

// testsRun is how many tests ran of how many.
func testsRun(s gavelapi.Submission) string {
	if s.Detail == nil {
		return ""
	}
	run := 0
	for _, t := range s.Detail.Tests {
		if t.Verdict != gavelapi.SkippedTest {
			run++
		}
	}
	return fmt.Sprintf("%d/%d", run, len(s.Detail.Tests))
}

func (v *upView) Running(url, tokenFile, logFile string) {
	a := v.app
	// What the client finds by itself in this directory need not be said to it.
	found := sameFile(tokenFile, DefaultTokenFile)
	access := ""
	if !found || url != DefaultURL {
		access = " --url " + url + " --token-file " + tokenFile
	}
	if found {
		tokenFile, logFile = DefaultTokenFile, filepath.Join(filepath.Dir(DefaultTokenFile), filepath.Base(logFile))
	}
	try := "FILE -p PROBLEM"
	if v.samples {
		if _, err := os.Stat(sampleSource); err == nil {
			try = sampleSource + " -p garden-rope"
		}
	}
	a.note("%s gavel is up at %s", a.style.paint("✓", green, a.style.err), a.style.paint(url, bold, a.style.err))
	a.note("  token   %s", tokenFile)
	a.note("  log     %s", logFile)
	a.note("  try     %s submit %s --wait%s", a.program(), try, access)
	a.note("  Ctrl-C stops everything in order")
}

// sampleSource is a right solution of an example, below a clone.
const sampleSource = "examples/problems/garden-rope/submissions/accepted/rope.cpp"

func sameFile(x, y string) bool {
	a, errA := os.Stat(x)
	b, errB := os.Stat(y)
	return errA == nil && errB == nil && os.SameFile(a, b)
}
