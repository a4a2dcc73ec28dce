package judge

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gavel-oj/gavel/internal/judge/checker"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/sandbox"
)

// maxLogBytes bounds a compile log.
const maxLogBytes = 64 << 10

// built is the outcome of one compile step.
type built struct {
	compile Compile
	// program is the host path of the result; empty when there is none,
	// because the step failed or the source itself is the program.
	program string
	// suspect says that the failure may be the toolchain's: no limit explains it.
	suspect bool
}

// build runs lang's compile step in box. mounts show the sources, which are
// the box paths given. The program is copied to dir.
//
// Whatever the source makes the compiler do ends in compile.OK being false; an
// error means that the machine or the toolchain failed.
func (e *Engine) build(ctx context.Context, box *lazyBox, lang *language.Language, limits language.CompileLimits,
	mounts []sandbox.Mount, sources []string, dir string,
) (built, error) {
	var log syncBuffer
	spec := &sandbox.Spec{
		Argv:    lang.CompileArgv(sources...),
		Env:     lang.CompileEnv(),
		Mounts:  mounts,
		Stdout:  &log,
		Stderr:  &log,
		Limits:  compileLimits(limits),
		Profile: sandbox.ProfileCompile,
	}
	if !lang.Interpreted() {
		spec.CopyOut = []sandbox.CopyOut{{Path: lang.Compile.Program, MaxBytes: limits.FileBytes}}
	}
	res, err := box.Run(ctx, spec)
	defer closeFiles(res)
	if err != nil {
		if f, ok := checker.NotStarted(err); ok {
			return built{}, faultf(BlameToolchain, f.Err, "%s: %s can not be started", lang.ID, spec.Argv[0])
		}
		return built{}, asFault(ctx, err, "compile")
	}

	b := built{compile: Compile{Fired: res.Fired, CPU: res.CPU, Wall: res.Wall}}
	b.compile.Log, b.compile.LogCut = log.text()
	why, err := compileFailure(res, limits)
	if err != nil {
		return built{}, err
	}
	if why == failedByItself && strings.Contains(b.compile.Log, fileLimitWords) {
		// A part of the compiler ran into the limit, and its driver removed
		// the file: only the driver's words are left to tell.
		why, b.compile.Fired = tooLarge(limits), sandbox.LimitOutput
	}
	if why == "" && !lang.Interpreted() {
		if why, err = e.takeProgram(ctx, res.Files[lang.Compile.Program], lang, limits, dir, &b); err != nil {
			return built{}, err
		}
	}
	if why != "" && why != failedByItself {
		b.compile.Log = joinLog(why, b.compile.Log)
	}
	b.compile.OK = why == ""
	b.suspect = why == failedByItself || why == crashed(res)
	return b, nil
}

// maxAsleep is how long a compiler may wait for something that is neither a
// CPU nor a disk. Nothing in its box gives it cause to, but its source may.
const maxAsleep = 10 * time.Second

func compileLimits(l language.CompileLimits) sandbox.Limits {
	return sandbox.Limits{
		CPU: l.CPU(), Wall: l.Wall(), Asleep: min(maxAsleep, l.Wall()/3), MemoryBytes: l.MemoryBytes,
		StdoutBytes: 16 * maxLogBytes, StderrBytes: 16 * maxLogBytes,
		FileBytes: l.FileBytes + 1, // reaching it is the box's sign for "over"
		DiskBytes: l.DiskBytes, DiskInodes: 64 << 10,
		Processes: l.Processes, OpenFiles: 1024,
	}
}

// failedByItself is the failure that the compiler explains in its own words.
const failedByItself = "compiler reported errors"

// fileLimitWords is how the C library calls SIGXFSZ.
const fileLimitWords = "File size limit exceeded"

func crashed(res sandbox.Result) string {
	return fmt.Sprintf("compiler ended by signal %d", res.Signal)
}

func tooLarge(l language.CompileLimits) string {
	return fmt.Sprintf("program or a file made while compiling is larger than %d MiB", l.FileBytes>>20)
}

// waited is the failure of a compiler that did not want to run.
func waited(asleep time.Duration) string {
	return fmt.Sprintf("compiler waited for %v for something that never came: what the source makes it read or do while compiling does not end",
		asleep.Round(100*time.Millisecond))
}

// compileFailure says why a compile step failed, or nothing. A machine that is
// too busy is a fault of the box: wall time that runs out is the compiler's own.
func compileFailure(res sandbox.Result, l language.CompileLimits) (string, error) {
	switch {
	case res.Fired == sandbox.LimitMemory || res.OOMKills > 0:
		return fmt.Sprintf("compiler memory limit (%d MiB) exceeded", l.MemoryBytes>>20), nil
	case res.Fired == sandbox.LimitCPU || res.CPU > l.CPU():
		return fmt.Sprintf("compile time limit (%v of CPU) exceeded", l.CPU()), nil
	case res.Fired == sandbox.LimitWall:
		if res.CPU < l.CPU()/2 {
			return fmt.Sprintf("compile time limit (%v) exceeded with %v of CPU: the compiler waited for what never came, such as a file that is a pipe", l.Wall(), res.CPU.Round(time.Millisecond)), nil
		}
		return fmt.Sprintf("compile time limit (%v) exceeded", l.Wall()), nil
	case res.Fired == sandbox.LimitAsleep:
		return waited(res.Asleep), nil
	case res.Fired == sandbox.LimitOutput && res.StdoutBytes > 16*maxLogBytes:
		return fmt.Sprintf("compiler printed more than %d KiB", 16*maxLogBytes>>10), nil
	case res.Fired == sandbox.LimitOutput:
		return tooLarge(l), nil
	case res.Fired != sandbox.LimitNone:
		return "", faultf(BlameHost, nil, "compiler ended by the limit %q, which this engine does not know", res.Fired)
	case res.Signal != 0:
		return crashed(res), nil
	case res.ExitCode != 0:
		return failedByItself, nil
	}
	return "", nil
}

// takeProgram copies what the compiler left to dir, read-only.
func (e *Engine) takeProgram(ctx context.Context, f sandbox.File, lang *language.Language, l language.CompileLimits,
	dir string, b *built,
) (why string, err error) {
	switch f.State {
	case sandbox.FileOK:
		path := filepath.Join(dir, lang.Compile.Program)
		if err := writeFile(path, f.Content, 0o555); err != nil {
			return "", asFault(ctx, err, "keep program")
		}
		b.program = path
		return "", nil
	case sandbox.FileTooLarge:
		return fmt.Sprintf("program is larger than %d MiB (%d bytes)", l.FileBytes>>20, f.Size), nil
	case sandbox.FileMissing, sandbox.FileNotRegular:
	}
	return "", faultf(BlameToolchain, nil, "%s: compiler ended with 0 but left no program (%s)", lang.ID, f.State)
}

func joinLog(first, rest string) string {
	if rest == "" {
		return first
	}
	return first + "\n" + rest
}

func closeFiles(res sandbox.Result) {
	for _, f := range res.Files {
		if f.Content != nil {
			_ = f.Content.Close()
		}
	}
}

// syncBuffer is a log that two streams are written to at once. It keeps the
// beginning: a compiler's first error is the one to read.
type syncBuffer struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	total int
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total += len(p)
	b.buf.Write(p[:min(len(p), maxLogBytes-b.buf.Len())])
	return len(p), nil
}

// text is the log as valid UTF-8.
func (b *syncBuffer) text() (text string, cut bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	text, cut = checker.Clean(b.buf.Bytes(), maxLogBytes)
	return text, cut || b.total > b.buf.Len()
}
