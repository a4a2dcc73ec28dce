// Package sandbox says what it means to run one untrusted program in
// isolation: the words (Spec, Limits, Result, Fault) and the two interfaces
// (Provider, Box) that the judge engine uses. It contains no mechanism; the
// Linux one is in linuxbox, and boxtest is the conformance suite that each
// implementation must pass.
//
// The division of blame is the point of this package. Whatever the program
// does ends in a Result. Whatever the machine does (no cgroup, no disk, the
// helper gone) ends in an error, a *Fault, and never in a Result, so a fault
// of the system cannot be mistaken for a fault of the user.
package sandbox

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"
)

// Paths inside every box. They are fixed so that language files, checkers and
// error messages name the same places on every worker.
const (
	// WorkDir is the working directory: an empty, size-limited, writable
	// tmpfs that belongs to the run and is gone after it.
	WorkDir = "/w"
	// ProgramDir is where callers mount the program, read-only.
	ProgramDir = "/box"
	// SourceDir is where a compile step finds its source, read-only.
	SourceDir = "/src"
	// DataDir is where checkers find input and answer, read-only.
	DataDir = "/data"
)

// Profile names the system-call and environment policy of a run.
type Profile string

// The profiles. A contestant's program gets ProfileRun; compilers and jury
// programs run in boxes as well, with the same isolation and other limits.
const (
	ProfileRun     Profile = "run"
	ProfileCompile Profile = "compile"
	ProfileChecker Profile = "checker"
)

// Mount shows one host file or directory inside the box. Mounts are always
// read-only, nosuid and nodev; what a program writes goes to WorkDir. The
// program is nobody on the host, so the file or directory must be readable for
// everybody (os.MkdirTemp makes directories that are not).
type Mount struct {
	Host string // absolute host path of an existing file or directory
	Box  string // absolute path inside the box, below ProgramDir, SourceDir or DataDir; or Host, below /etc, /opt or /var/lib
}

// CopyOut asks for a regular file that the program left below WorkDir. The
// file is opened without following links, devices, FIFOs or mounts and its
// content handed over as an open descriptor; the host never opens a path of
// the box.
type CopyOut struct {
	Path     string // relative to WorkDir, no ".." elements
	MaxBytes int64  // a larger file is reported as FileTooLarge, not cut
	Optional bool   // a missing file is not in Result.Files, instead of FileMissing
}

// FileState says what became of one CopyOut.
type FileState string

// The states of a CopyOut.
const (
	FileOK         FileState = "ok"
	FileMissing    FileState = "missing"
	FileTooLarge   FileState = "too_large"
	FileNotRegular FileState = "not_regular"
)

// File is one copied-out file. When State is FileOK, Content is positioned at
// its start and the caller closes it.
type File struct {
	State   FileState
	Size    int64
	Content *os.File
}

// Limits bounds one run. A zero value of any field but StackBytes and Asleep is refused
// with an error: a run without a limit is always a mistake.
type Limits struct {
	CPU  time.Duration // summed over all threads and children
	Wall time.Duration
	// Asleep ends a run of which all threads sleep, waiting neither for a CPU
	// nor for a disk, for so long without a break; 0 does not look.
	Asleep      time.Duration
	MemoryBytes int64 // memory controller, swap excluded
	StackBytes  int64 // 0 means MemoryBytes
	StdoutBytes int64 // more ends the run with LimitOutput
	StderrBytes int64 // more is read and dropped, never a reason to end the run
	FileBytes   int64 // largest single file (RLIMIT_FSIZE); hitting it is LimitOutput
	DiskBytes   int64 // WorkDir, /tmp and /dev/shm together are bounded by this each
	DiskInodes  int64
	Processes   int // processes and threads at once
	OpenFiles   int
}

// Spec is one run. A Box keeps nothing of it afterwards.
type Spec struct {
	Argv    []string // Argv[0] is an absolute path inside the box
	Env     []string // the whole environment, KEY=VALUE
	Mounts  []Mount
	Dirs    []string // directories to make below WorkDir before the run, relative
	Stdin   *os.File // opened fresh and read-only by the caller; nil means empty
	Stdout  io.Writer
	Stderr  io.Writer // nil writers drop what they would get
	CopyOut []CopyOut
	Limits  Limits
	Profile Profile
	// StdoutFD, when set, becomes the program's standard output directly
	// (the pipe of an interactive run); Stdout and StdoutBytes are then unused.
	// A pipe that is given as Stdin or StdoutFD comes to belong to the box's
	// user, so that programs can open /dev/stdin and /dev/stdout.
	StdoutFD *os.File
	// Started, when set, is called from Run once the program's side has copies
	// of Stdin and StdoutFD: who wants to see the program close them closes his
	// own then.
	Started func()
	// Enforce, when set, is for limits that only the caller can see: the first
	// one that comes from it ends the run, as if the box had found it passed.
	Enforce <-chan Limit
}

// Limit names what the supervisor enforced.
type Limit string

// The limits that can end a run. LimitNone means that the program ended by
// itself or by a signal that the supervisor did not send.
const (
	LimitNone   Limit = ""
	LimitCPU    Limit = "cpu"
	LimitWall   Limit = "wall"
	LimitMemory Limit = "memory"
	LimitOutput Limit = "output"
	LimitAsleep Limit = "asleep"
)

// Result is what the kernel and the supervisor saw of one run. Times and sizes
// are as measured, never capped to the limit.
type Result struct {
	ExitCode int   // 0–255; meaningful when Signal is 0
	Signal   int   // the signal that ended the program, 0 if none
	Fired    Limit // the limit that the supervisor enforced first

	CPU  time.Duration // all threads and children, whether waited for or not
	Wall time.Duration
	// Starved is by how much the wall limit was put off, because the program
	// was ready to run while the machine ran others; so Wall, less this, is
	// what counts. It is 0 for runs within the plain limit. A machine that
	// starves a program beyond all bounds is a Fault.
	Starved time.Duration
	// Asleep is for how much of Wall all threads were seen asleep, as
	// Limits.Asleep means it; 0 without that limit.
	Asleep      time.Duration
	MemoryBytes int64 // peak by MemoryMeter
	// OOMKills counts kills by the memory controller during this run. It
	// decides "memory limit"; the peak alone does not, because page cache
	// drives the peak up to the limit without harm.
	OOMKills    int
	MemoryMeter string // "cgroup1", "cgroup2", or "rusage" (approximate)
	// ProcessLimitHit is set when a fork or clone was refused by the limit.
	ProcessLimitHit bool

	StdoutBytes int64 // bytes seen, also beyond the limit
	StderrBytes int64
	Files       map[string]File // by CopyOut.Path
}

// Box runs programs one at a time; it is not safe for concurrent use. After
// Run returns, no process of the run is left and nothing that it wrote is
// visible to the next one.
type Box interface {
	// Run returns a Result for everything the program did. It returns a
	// *Fault when the machine could not run or observe it, the context's cause
	// when ctx ended first (in both cases the processes are gone), and another
	// error, at once, when the spec itself is at fault. The spec's writers are
	// called from Run, one at a time.
	Run(ctx context.Context, spec *Spec) (Result, error)
	// Close kills what runs and releases everything the box holds. It may be
	// called during Run from another goroutine, not from a writer of the run.
	Close() error
}

// Info says how boxes of a Provider are made on this machine; workers report
// it with every result.
type Info struct {
	MemoryMeter string   // as in Result
	CPUMeter    string   // "cgroup1", "cgroup2" or "rusage"
	Layout      string   // "v1", "v2", "hybrid", or "none" when usage is only looked at
	Kernel      string   // release
	Weaker      []string // protections that this machine cannot give, in words; empty is good
}

// Provider opens boxes on one machine.
type Provider interface {
	Open(ctx context.Context) (Box, error)
	Info() Info
	// Close releases what the provider made for all of its boxes.
	Close() error
}

// CPU is one logical CPU that boxes can be pinned to.
type CPU struct {
	ID       int
	Sibling  bool // shares its physical core with a CPU listed before it
	Isolated bool // the kernel puts nothing on it that is not pinned to it
}

// Pinner is a Provider whose boxes can be kept on one CPU.
type Pinner interface {
	// OpenOn is Open for a box all of whose processes stay on the CPU with
	// this id, whatever they do; a negative id does not pin.
	OpenOn(ctx context.Context, cpu int) (Box, error)
}

// Fault is a failure of the machine, never of the program in the box.
type Fault struct {
	Op   string // what was tried: "mount", "cgroup", "fork", "supervise", …
	Hint string // what an operator can do, may be empty
	Err  error
}

func (f *Fault) Error() string {
	if f.Hint != "" {
		return fmt.Sprintf("sandbox %s: %v (%s)", f.Op, f.Err, f.Hint)
	}
	return fmt.Sprintf("sandbox %s: %v", f.Op, f.Err)
}

func (f *Fault) Unwrap() error { return f.Err }
