package checker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

// The exit codes of the ICPC convention. Any other is a failure of the checker.
const (
	exitAccepted = 42
	exitWrong    = 43
)

// Paths of a check inside the box.
const (
	boxInput    = sandbox.DataDir + "/input"
	boxAnswer   = sandbox.DataDir + "/answer"
	feedbackDir = "feedback"
)

const (
	maxMessageBytes = 4 << 10
	maxStderrBytes  = 4 << 10
)

// Runner runs one program in isolation, as sandbox.Box does.
type Runner interface {
	Run(ctx context.Context, spec *sandbox.Spec) (sandbox.Result, error)
}

// Program is a checker that the package brought, built and ready to run:
//
//	program input answer feedback_dir/ args... < output
type Program struct {
	Argv   []string // inside the box
	Env    []string
	Mounts []sandbox.Mount // the program, read-only
	Limits ProgramLimits
}

// ProgramLimits are a checker's own, nothing of the contestant's.
type ProgramLimits struct {
	CPU         time.Duration
	MemoryBytes int64
	OutputBytes int64 // each of its feedback files, and what it prints
}

// Case is one output to check. Input and Answer are host paths; Output is open
// for reading at its start.
type Case struct {
	Input, Answer string
	Output        *os.File
	Args          []string
	Talk          *Talk // nil but for an interactor
}

// Talk is what an interactor has beside a checker: it reads what the
// contestant's program writes (Case.Output) while that runs, and answers.
type Talk struct {
	Answers *os.File             // becomes its standard output
	Wall    time.Duration        // its wall limit, in place of that of a check
	Started func()               // as in sandbox.Spec, as is
	Enforce <-chan sandbox.Limit // (OutputBytes is for what it writes to files)
}

// Check runs the checker once. A *Failure says that the checker did not do its
// work; any other error is the runner's.
func (p *Program) Check(ctx context.Context, box Runner, c Case) (Result, error) {
	var stderr head
	spec := p.spec(append([]string{boxInput, boxAnswer, sandbox.WorkDir + "/" + feedbackDir + "/"}, c.Args...))
	spec.Mounts = append([]sandbox.Mount{{Host: c.Input, Box: boxInput}, {Host: c.Answer, Box: boxAnswer}}, p.Mounts...)
	spec.Dirs = []string{feedbackDir}
	spec.Stdin, spec.Stderr = c.Output, &stderr
	spec.CopyOut = []sandbox.CopyOut{
		{Path: feedbackDir + "/judgemessage.txt", MaxBytes: p.Limits.OutputBytes, Optional: true},
		{Path: feedbackDir + "/teammessage.txt", MaxBytes: p.Limits.OutputBytes, Optional: true},
	}
	name := "checker "
	if t := c.Talk; t != nil {
		name = "interactor "
		spec.StdoutFD, spec.Started, spec.Enforce, spec.Limits.Wall = t.Answers, t.Started, t.Enforce, t.Wall
	}
	res, err := box.Run(ctx, spec)
	defer func() {
		for _, f := range res.Files {
			if f.Content != nil {
				_ = f.Content.Close()
			}
		}
	}()
	if err != nil {
		if fault, ok := NotStarted(err); ok {
			return Result{}, &Failure{Message: fmt.Sprintf("%scan not be started: %v", name, fault.Err)}
		}
		return Result{}, err
	}
	why := p.broke(res, spec.Limits.Wall)
	if why == "" && res.ExitCode != exitAccepted && res.ExitCode != exitWrong {
		why = fmt.Sprintf("ended with exit code %d; it must be %d (accepted) or %d (wrong answer)", res.ExitCode, exitAccepted, exitWrong)
	}
	if why != "" {
		return Result{CPU: res.CPU}, &Failure{Message: withOutput(name+why, stderr.bytes)}
	}
	message, err := readMessages(res.Files, spec.CopyOut)
	return Result{Accepted: res.ExitCode == exitAccepted, Message: message, CPU: res.CPU}, err
}

// WallOf is the wall limit of a check: its CPU time is what counts, and the
// machine may be busy.
func WallOf(cpu time.Duration) time.Duration { return 3 * cpu }

// opExec is the Op of the sandbox's fault for a program that could not be
// executed: the only one that may come from the program's file.
const opExec = "exec"

// NotStarted returns the fault of a program that was not started because of
// what it is: missing, not executable, no format that the kernel knows, or
// naming a loader or interpreter that is not there. Running out of memory,
// descriptors or processes at that moment is not among them.
func NotStarted(err error) (*sandbox.Fault, bool) {
	var f *sandbox.Fault
	if !errors.As(err, &f) || f.Op != opExec {
		return nil, false
	}
	for _, errno := range []error{
		syscall.ENOENT, syscall.ENOTDIR, syscall.EACCES, syscall.EPERM, syscall.EINVAL,
		syscall.ENOEXEC, syscall.ELIBBAD, syscall.EISDIR, syscall.ELOOP,
	} {
		if errors.Is(f.Err, errno) {
			return f, true
		}
	}
	return nil, false
}

// spec is a run of the program with arguments. Mounts and streams are the
// caller's to complete.
func (p *Program) spec(args []string) *sandbox.Spec {
	return &sandbox.Spec{
		Argv:   append(append([]string{}, p.Argv...), args...),
		Env:    p.Env,
		Mounts: p.Mounts,
		Limits: sandbox.Limits{
			CPU:         p.Limits.CPU,
			Wall:        WallOf(p.Limits.CPU),
			MemoryBytes: p.Limits.MemoryBytes,
			StdoutBytes: p.Limits.OutputBytes,
			StderrBytes: p.Limits.OutputBytes,
			FileBytes:   p.Limits.OutputBytes + 1, // reaching it is the box's sign for "over"
			DiskBytes:   2*p.Limits.OutputBytes + 64<<20,
			DiskInodes:  1024,
			Processes:   64,
			OpenFiles:   64,
		},
		Profile: sandbox.ProfileChecker,
	}
}

// Validate runs an input validator once on an input, open for reading at its
// start. It accepts by the exit code of an accepting checker; whatever else it
// does is a refusal, with what it wrote. An error is the runner's.
func (p *Program) Validate(ctx context.Context, box Runner, input *os.File, args []string) (Result, error) {
	var said head
	spec := p.spec(args)
	spec.Stdin, spec.Stdout, spec.Stderr = input, &said, &said
	res, err := box.Run(ctx, spec)
	if err != nil {
		if fault, ok := NotStarted(err); ok {
			return Result{Message: fmt.Sprintf("it can not be started: %v", fault.Err)}, nil
		}
		return Result{}, err
	}
	why := p.broke(res, spec.Limits.Wall)
	switch {
	case why != "":
		why = "it " + why
	case res.ExitCode == exitAccepted:
		return Result{Accepted: true}, nil
	case res.ExitCode == exitWrong:
		why = "refused"
	default:
		why = fmt.Sprintf("it ended with exit code %d; a validator accepts with %d", res.ExitCode, exitAccepted)
	}
	return Result{Message: withOutput(why, said.bytes)}, nil
}

// broke says which limit or signal ended the program, or nothing.
func (p *Program) broke(res sandbox.Result, wall time.Duration) string {
	switch {
	case res.Fired == sandbox.LimitOutput:
		return fmt.Sprintf("wrote more than %d bytes", p.Limits.OutputBytes)
	case res.Fired == sandbox.LimitMemory || res.OOMKills > 0:
		return fmt.Sprintf("exceeded its memory limit of %d MiB", p.Limits.MemoryBytes>>20)
	case res.Fired == sandbox.LimitCPU || res.CPU > p.Limits.CPU:
		return fmt.Sprintf("exceeded its CPU limit of %v", p.Limits.CPU)
	case res.Fired == sandbox.LimitWall:
		return fmt.Sprintf("took longer than %v", wall)
	case res.Fired != sandbox.LimitNone:
		return fmt.Sprintf("was ended by the limit %q", res.Fired)
	case res.Signal != 0:
		return fmt.Sprintf("was ended by signal %d", res.Signal)
	}
	return ""
}

// readMessages returns the first message that says something: the one for the
// jury, else the one for the team.
func readMessages(files map[string]sandbox.File, order []sandbox.CopyOut) (string, error) {
	for _, want := range order {
		switch f := files[want.Path]; f.State {
		case sandbox.FileOK:
			text, err := io.ReadAll(io.LimitReader(f.Content, 2*maxMessageBytes))
			if err != nil {
				return "", fmt.Errorf("read the checker's message: %w", err)
			}
			message, cut := Clean(text, maxMessageBytes)
			if cut || f.Size > int64(len(text)) {
				message += "…"
			}
			if strings.TrimSpace(message) != "" {
				return message, nil
			}
		case sandbox.FileTooLarge:
			return fmt.Sprintf("(%s has %d bytes and is not shown)", want.Path, f.Size), nil
		case sandbox.FileMissing, sandbox.FileNotRegular:
		}
	}
	return "", nil
}

func withOutput(message string, output []byte) string {
	if text, _ := Clean(output, maxStderrBytes); text != "" {
		return message + "\n" + text
	}
	return message
}

// head keeps the first bytes written to it, by two streams at once if need be.
type head struct {
	mu    sync.Mutex
	bytes []byte
}

func (h *head) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bytes = append(h.bytes, b[:min(len(b), maxStderrBytes-len(h.bytes))]...)
	return len(b), nil
}
