package language

import (
	"slices"
	"strings"
	"time"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

// Placeholders in Compile.Argv and Run.Argv.
const (
	// ArgSources stands for one argument per source file.
	ArgSources = "{sources}"
	// ArgProgram stands, also within a word, for the program: what to write
	// when compiling, what to start when running.
	ArgProgram = "{program}"
)

// Language is one programming language as its data file describes it. It is
// read-only after loading.
type Language struct {
	ID   string `yaml:"id"` // stable: stored with submissions
	Name string `yaml:"name"`
	// PackageCodes are the codes of package formats that mean this language.
	PackageCodes []string `yaml:"package_codes"`
	Extensions   []string `yaml:"extensions"`  // of source files, without the dot
	DefaultFor   []string `yaml:"default_for"` // extensions for which this one is taken among several
	Source       string   `yaml:"source"`      // file name of a single source, fixed
	// Reserved are names, in lower case and with path.Match's patterns, that no
	// file of a source of several may have.
	Reserved []string `yaml:"reserved"`

	Mounts []Mount `yaml:"mounts"`
	// Helpers are files by name that the compile and prepare steps find below
	// sandbox.ProgramDir.
	Helpers map[string]string `yaml:"helpers"`
	Prepare *Prepare          `yaml:"prepare"` // nil when nothing has to be prepared

	Compile Compile `yaml:"compile"`
	// Precompile is nil for a language without a header worth it.
	Precompile *Precompile `yaml:"precompile"`

	Run      Run      `yaml:"run"`
	Version  Version  `yaml:"version"`
	SelfTest SelfTest `yaml:"self_test"`
	Factors  Factors  `yaml:"factors"`
}

// Compile is the compile step, or for an interpreter the syntax check.
type Compile struct {
	Argv []string `yaml:"argv"`
	Env  []string `yaml:"env"`
	// Program is the file that the step leaves in its working directory.
	// Empty means that the source itself is the program.
	Program string `yaml:"program"`
	// MainOnly is for compilers that find the other files of a source by
	// themselves, from what the main one imports.
	MainOnly bool          `yaml:"main_only"`
	Limits   CompileLimits `yaml:"limits"`
}

// CompileLimits bounds the compile step.
type CompileLimits struct {
	CPUMS       int64 `yaml:"cpu_ms"`
	WallMS      int64 `yaml:"wall_ms"`
	MemoryBytes int64 `yaml:"memory_bytes"`
	FileBytes   int64 `yaml:"file_bytes"` // largest single file, so also of the program
	DiskBytes   int64 `yaml:"disk_bytes"`
	Processes   int   `yaml:"processes"`
}

// CPU is the CPU limit as a duration.
func (l CompileLimits) CPU() time.Duration { return time.Duration(l.CPUMS) * time.Millisecond }

// Wall is the wall limit as a duration.
func (l CompileLimits) Wall() time.Duration { return time.Duration(l.WallMS) * time.Millisecond }

// Run is how a program of the language is started.
type Run struct {
	Argv []string `yaml:"argv"`
	Env  []string `yaml:"env"`
	// Processes is the number of processes and threads that the runtime needs
	// for itself; a package's smaller limit is raised to it.
	Processes int `yaml:"processes"`
	// OpenFiles is how many descriptors it may have open; DefaultOpenFiles
	// when 0.
	OpenFiles int `yaml:"open_files"`
}

// Version is the probe whose first line of output is the toolchain's version.
type Version struct {
	Argv []string `yaml:"argv"`
}

// SelfTest is a program that a worker runs before it offers the language.
type SelfTest struct {
	Source string `yaml:"source"`
	Input  string `yaml:"input"`
	Output string `yaml:"output"`
}

// Factors turn a package's limits into this language's:
// CPU × CPUFactor + CPUExtraMS, memory + MemoryExtraBytes.
type Factors struct {
	CPUFactor        Factor `yaml:"cpu_factor"`
	CPUExtraMS       int64  `yaml:"cpu_extra_ms"`
	MemoryExtraBytes int64  `yaml:"memory_extra_bytes"`
}

// baseEnv is the environment of every step; a language adds to it.
var baseEnv = []string{
	"PATH=/usr/local/bin:/usr/bin:/bin",
	"HOME=" + sandbox.WorkDir,
	"LANG=C.UTF-8",
	"ONLINE_JUDGE=1",
}

// Interpreted reports whether the source itself is the program.
func (l *Language) Interpreted() bool { return l.Compile.Program == "" }

// CompileArgv is the compile command for sources (paths in the box).
func (l *Language) CompileArgv(sources ...string) []string {
	program := ""
	if !l.Interpreted() {
		program = sandbox.WorkDir + "/" + l.Compile.Program
	}
	return expand(l.Compile.Argv, program, sources)
}

// CompileEnv is the whole environment of the compile step.
func (l *Language) CompileEnv() []string { return environment(l.Compile.Env) }

// ProgramName is the file name of the program below sandbox.ProgramDir.
func (l *Language) ProgramName() string {
	if l.Interpreted() {
		return l.Source
	}
	return l.Compile.Program
}

// RunArgv is the command that runs the program of the given file name below
// sandbox.ProgramDir, under that memory limit, with args.
func (l *Language) RunArgv(programName string, memoryBytes int64, args ...string) []string {
	return append(l.withMemory(expand(l.Run.Argv, sandbox.ProgramDir+"/"+programName, nil), memoryBytes), args...)
}

// RunEnv is the whole environment of a run under that memory limit.
func (l *Language) RunEnv(memoryBytes int64) []string {
	return l.withMemory(environment(l.Run.Env), memoryBytes)
}

// HasExtension reports whether a file of this name can be a source of l.
func (l *Language) HasExtension(fileName string) bool {
	return slices.Contains(l.Extensions, extensionOf(fileName))
}

// In reports whether codes, a package's list of allowed language codes, lets l
// in. An empty list allows every language.
func (l *Language) In(codes []string) bool {
	if len(codes) == 0 || slices.Contains(codes, l.ID) {
		return true
	}
	return slices.ContainsFunc(l.PackageCodes, func(code string) bool { return slices.Contains(codes, code) })
}

func expand(argv []string, program string, sources []string) []string {
	out := make([]string, 0, len(argv)+len(sources))
	for _, arg := range argv {
		if arg == ArgSources {
			out = append(out, sources...)
		} else {
			out = append(out, strings.ReplaceAll(arg, ArgProgram, program))
		}
	}
	return out
}

// environment is the base environment with extra's entries added or replaced.
func environment(extra []string) []string {
	env := slices.Clone(baseEnv)
	for _, entry := range extra {
		name, _, _ := strings.Cut(entry, "=")
		i := slices.IndexFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") })
		if i >= 0 {
			env[i] = entry
		} else {
			env = append(env, entry)
		}
	}
	return env
}
