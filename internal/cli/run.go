package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/cmdline"
)

// RunCmd is `gavel run`.
type RunCmd struct {
	Files    []string       `arg:"" name:"file" help:"Source file, or - for standard input (then -l is needed). The first is the main one, others lie beside it."`
	Language string         `short:"l" placeholder:"ID" help:"Language; by default guessed from the file's ending."`
	Inputs   []string       `name:"input" short:"i" sep:"none" placeholder:"FILE" help:"What the program reads, or - for standard input. Several are run one after the other; without any the input is empty."`
	Time     *time.Duration `placeholder:"D" help:"CPU time for each input, e.g. 2s, before the language's rule (default: the arbiter's)."`
	Memory   *int64         `placeholder:"MIB" help:"Memory in MiB (default: the arbiter's)."`
	Keep     *int64         `name:"output-kib" placeholder:"KIB" help:"Standard output to keep of each input, at which the program is stopped (default: the arbiter's)."`
	User     string         `placeholder:"NAME" help:"Who runs it, as your site calls them."`
}

// maxInputBytes is above what any arbiter takes in one run.
const maxInputBytes = 16 << 20

// Run implements kong's command.
func (cmd *RunCmd) Run(app *App) error {
	var cpu time.Duration // 0 is the arbiter's
	if cmd.Time != nil {
		if err := between("--time", *cmd.Time, time.Millisecond, time.Hour); err != nil {
			return err
		}
		cpu = *cmd.Time
	}
	memory, err := amount("--memory", cmd.Memory, 20)
	if err != nil {
		return err
	}
	keep, err := amount("--output-kib", cmd.Keep, 10)
	if err != nil {
		return err
	}
	main := cmd.Files[0]
	files, err := readSources(app.In, main, cmd.Files[1:])
	if err != nil {
		return err
	}
	in := gavelapi.NewRun{User: cmd.User, Limits: gavelapi.RunLimits{
		CPUUS: cpu.Microseconds(), MemoryBytes: memory, OutputBytes: keep,
	}}
	if in.Inputs, err = cmd.readInputs(app.In, main == "-"); err != nil {
		return err
	}
	c, err := app.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	if in.Language = cmd.Language; in.Language == "" {
		if in.Language, err = app.guessLanguage(c, main); err != nil {
			return err
		}
	}
	if main != "-" {
		in.SourceName = filepath.Base(main)
	}
	in.SourceBase64 = files[0].text
	for _, f := range files[1:] {
		in.Files = append(in.Files, gavelapi.SourceFile{Name: f.name, ContentBase64: f.text})
	}
	run, err := handIn(app.Ctx, in, c.RunCreate)
	if err != nil {
		return aboutFlag(aboutFile(err, files))
	}
	if run, err = app.awaitRun(c, run); err != nil {
		return err
	}
	return cmd.show(app, run)
}

// amount is the value of a flag in units of so many binary digits, in bytes; 0
// is the arbiter's default, for which the flag is left out.
func amount(flag string, given *int64, digits uint) (int64, error) {
	if given == nil {
		return 0, nil
	}
	if most := int64(math.MaxInt64 >> digits); *given < 1 || *given > most {
		return 0, usage("leave it out for the default", "%s must lie between 1 and %d", flag, most)
	}
	return *given << digits, nil
}

// runFlags are the flags for what the arbiter calls limits.
var runFlags = map[string]string{
	"body.limits.cpu_us": "--time", "body.limits.memory_bytes": "--memory", "body.limits.output_bytes": "--output-kib",
}

// aboutFlag names the flag that the arbiter refuses.
func aboutFlag(err error) error {
	if p, ok := errors.AsType[*gavelapi.Problem](err); ok && len(p.Errors) == 1 && runFlags[p.Errors[0].Location] != "" {
		return withCause(err, usage(p.Hint, "%s: %s", runFlags[p.Errors[0].Location], p.Detail))
	}
	return err
}

func (cmd *RunCmd) readInputs(stdin io.Reader, taken bool) (inputs []gavelapi.RunInput, err error) {
	for _, path := range cmd.Inputs {
		var content []byte
		if path == "-" {
			if taken {
				return nil, usage("write one of them to a file first", "standard input can be the source or one input, not more")
			}
			taken = true
			content, err = io.ReadAll(io.LimitReader(stdin, maxInputBytes+1))
		} else {
			content, err = readInput(path)
		}
		switch {
		case err != nil:
			return nil, usage("check the path and the file's permissions", "cannot read %s: %s", path, reason(err))
		case len(content) > maxInputBytes:
			return nil, usage("let the program make its own input", "%s is larger than %s", path, size(maxInputBytes))
		}
		inputs = append(inputs, gavelapi.RunInput{ContentBase64: content})
	}
	return inputs, nil
}

func readInput(path string) ([]byte, error) {
	f, err := cmdline.OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxInputBytes+1))
}

// awaitRun waits for the end of a run; one that nobody waits for any more is
// cancelled.
func (a *App) awaitRun(c *client.Client, run *gavelapi.Run) (*gavelapi.Run, error) {
	live := &liveLine{app: a, quiet: !a.ErrTerminal}
	defer live.clear()
	id, failed, last := run.ID, 0, ""
	pause := client.NewPause(500*time.Millisecond, 8*time.Second)
	for !gavelapi.Final(run.State) {
		line := runLine(run)
		live.show(line, run.State)
		if line == last {
			if err := client.Sleep(a.Ctx, idlePause); err != nil {
				return nil, a.abandonRun(c, id)
			}
		}
		last = line
		ctx, stop := context.WithCancelCause(a.Ctx)
		next, err := client.Retry(ctx, pause, func(ctx context.Context) (*gavelapi.Run, error) {
			return c.RunGet(ctx, id, pollWait)
		}, func(err error, wait time.Duration) {
			if failed++; failed >= patience {
				stop(err)
				return
			}
			live.show(fmt.Sprintf("run %d: the arbiter does not answer, asking again in %s", id, took(wait)), "away")
		})
		stop(nil)
		switch {
		case a.Ctx.Err() != nil:
			return nil, a.abandonRun(c, id)
		case err != nil:
			return nil, err
		}
		run, failed = next, 0
	}
	return run, nil
}

// abandonRun cancels a run after Ctrl-C.
func (a *App) abandonRun(c *client.Client, id int64) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.Ctx), 3*time.Second)
	defer cancel()
	if _, err := c.RunCancel(ctx, id); err != nil {
		return &Error{Code: ExitInterrupted, Message: fmt.Sprintf("interrupted; run %d goes on", id), Hint: "its result is deleted by itself after a while"}
	}
	return &Error{Code: ExitInterrupted, Message: fmt.Sprintf("interrupted; run %d is cancelled", id), Hint: "run it again"}
}

func runLine(r *gavelapi.Run) string {
	line := fmt.Sprintf("run %d: %s", r.ID, r.State)
	if r.Waiting != "" {
		line += ", " + r.Waiting
	}
	if p := r.Progress; p != nil {
		line += ", " + p.Phase
		if p.TestsTotal > 1 && p.Phase == "running" {
			line += fmt.Sprintf(" input %d of %d", min(p.TestsDone+1, p.TestsTotal), p.TestsTotal)
		}
	}
	if r.Worker != "" {
		line += " on " + r.Worker
	}
	return line
}

// show prints what a run's program wrote, each to its own stream, and turns
// how it ended into the exit code.
func (cmd *RunCmd) show(app *App, run *gavelapi.Run) error {
	switch app.Output {
	case "json":
		if err := app.json(run, "  "); err != nil {
			return err
		}
	case "jsonl":
		if err := app.json(run, ""); err != nil {
			return err
		}
	case "id":
		fmt.Fprintln(app.Out, run.ID)
	default:
		if err := cmd.print(app, run); err != nil {
			return err
		}
	}
	switch {
	case run.State == gavelapi.StateSystemError && run.Fault != nil:
		return failed("run it again; if it lasts, the operator has to act", "run %d failed by a fault of the system, not of the program: %s: %s", run.ID, run.Fault.Blame, run.Fault.Message)
	case run.State == gavelapi.StateCancelled:
		return failed("run it again", "run %d was cancelled", run.ID)
	case run.Unreadable != "":
		return failed("", "%s", clean(run.Unreadable))
	case !run.Compiled:
		return &Error{Code: ExitProgram, Message: "the source does not compile", Hint: "the compiler's words are above, and in compile.log with -o json"}
	}
	for i, r := range run.Results {
		if r.Ended != gavelapi.EndedExit || r.ExitCode != 0 {
			return &Error{Code: ExitProgram, Message: cmd.of(i, run) + ended(r, run.Limits), Hint: "gavel run exits 0 only when the program does, for every input"}
		}
	}
	return nil
}

func (cmd *RunCmd) print(app *App, run *gavelapi.Run) error {
	if run.State == gavelapi.StateDone && !run.Compiled {
		return app.printBytes(app.Err, app.ErrTerminal, []byte(run.Compile.Log))
	}
	for i, r := range run.Results {
		if len(run.Results) > 1 {
			if i > 0 {
				fmt.Fprintln(app.Out)
			}
			fmt.Fprintf(app.Out, "==> %s <==\n", clean(cmd.name(i)))
		}
		if err := app.printBytes(app.Out, app.OutTerminal, r.StdoutBytes()); err != nil {
			return err
		}
		if err := app.printBytes(app.Err, app.ErrTerminal, r.StderrBytes()); err != nil {
			return err
		}
		if r.StdoutCut {
			app.note("%sstandard output is cut after %s", cmd.of(i, run), size(int64(len(r.StdoutBytes()))))
		}
		if r.StderrCut {
			app.note("%sstandard error is cut after %s", cmd.of(i, run), size(int64(len(r.StderrBytes()))))
		}
		if app.Output == "wide" {
			app.note("%s%s; %s ms cpu, %s ms wall, %s MiB", cmd.of(i, run), ended(r, run.Limits), ms(r.CPUUS), ms(r.WallUS), mib(r.MemoryBytes))
		}
	}
	return nil
}

func (cmd *RunCmd) name(i int) string {
	if i < len(cmd.Inputs) {
		return cmd.Inputs[i]
	}
	return "input " + strconv.Itoa(i+1)
}

// of names an input in a message when there are several.
func (cmd *RunCmd) of(i int, run *gavelapi.Run) string {
	if len(run.Results) < 2 {
		return ""
	}
	return cmd.name(i) + ": "
}

// ended says how the program ended.
func ended(r gavelapi.RunResult, l gavelapi.Limits) string {
	switch r.Ended {
	case gavelapi.EndedExit:
		if r.Message != "" {
			return r.Message
		}
		return fmt.Sprintf("the program ended with exit code %d", r.ExitCode)
	case gavelapi.EndedSignal:
		return fmt.Sprintf("the program was ended by signal %d", r.Signal)
	case gavelapi.EndedCPU:
		return fmt.Sprintf("the program used more than its %s ms of CPU time", ms(l.CPUUS))
	case gavelapi.EndedWall:
		return fmt.Sprintf("the program took longer than %s ms", ms(l.WallUS))
	case gavelapi.EndedIdle:
		return fmt.Sprintf("the program did nothing and took longer than %s ms; does it wait for more input?", ms(l.WallUS))
	case gavelapi.EndedMemory:
		return fmt.Sprintf("the program used more than its %s MiB of memory", mib(l.MemoryBytes))
	case gavelapi.EndedOutput:
		return fmt.Sprintf("the program wrote more than the %s that are kept, and was stopped", size(l.OutputBytes))
	}
	return "the program was ended by its " + r.Ended + " limit"
}

// printBytes writes what a program wrote: exactly, but for a terminal, where
// what could harm it is escaped.
func (a *App) printBytes(w io.Writer, terminal bool, b []byte) error {
	if !terminal || len(b) == 0 {
		_, err := w.Write(b)
		return err
	}
	if !utf8.Valid(b) {
		b = bytes.ToValidUTF8(b, []byte("\uFFFD"))
	}
	for _, l := range cleanLines(string(b)) {
		if _, err := fmt.Fprintln(w, l); err != nil {
			return err
		}
	}
	return nil
}
