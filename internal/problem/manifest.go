// Package problem is the package model: what gavel knows of a problem once an
// importer has read it, whatever format it came in. A package is immutable and
// named by the digest of its manifest, which lists every file with its own
// digest; so the name covers each byte.
//
// The stored form is a directory or a tar.zst stream holding manifest.json
// first and then the listed files under their paths.
package problem

import (
	"slices"
	"time"
)

// ManifestName is the manifest's file name in a stored package.
const ManifestName = "manifest.json"

// Manifest describes one package. Its canonical JSON (Go's encoding/json, keys
// in declaration order, one trailing newline) hashed with SHA-256 is the
// package digest, written "sha256:<64 hex digits>".
type Manifest struct {
	Schema    int               `json:"schema"` // 1
	Name      string            `json:"name"`   // short name: [a-z0-9][a-z0-9._-]*, at most 64
	Titles    map[string]string `json:"titles"` // language code → title; "en" preferred
	Format    string            `json:"format"` // "icpc-2025-09", "icpc-2023-07-draft", "icpc-legacy"
	Limits    Limits            `json:"limits"`
	Languages []string          `json:"languages,omitempty"` // allowed language codes of the format; empty means all
	Checker   Checker           `json:"checker"`
	// InputValidators must accept the input of each test before the package is
	// published; they take no part in judging.
	InputValidators []Program `json:"input_validators,omitempty"`
	Tests           []Test    `json:"tests"` // in judging order
	// Trials try the package's own programs before it is published; they take no
	// part in judging.
	Trials      []Trial   `json:"trials,omitempty"`
	Submissions []Example `json:"submissions,omitempty"`
	Files       []File    `json:"files"` // sorted by path, every file of the package
	Warnings    []string  `json:"warnings,omitempty"`
}

// Limits are the package's own, before any language rule.
type Limits struct {
	CPUMS                 int64 `json:"cpu_ms"`
	MemoryBytes           int64 `json:"memory_bytes"`
	OutputBytes           int64 `json:"output_bytes"`
	CodeBytes             int64 `json:"code_bytes"`
	Processes             int   `json:"processes"`
	CompileCPUMS          int64 `json:"compile_cpu_ms,omitempty"` // 0: the language's own
	CompileMemoryBytes    int64 `json:"compile_memory_bytes,omitempty"`
	ValidationCPUMS       int64 `json:"validation_cpu_ms"`
	ValidationMemoryBytes int64 `json:"validation_memory_bytes"`
	ValidationOutputBytes int64 `json:"validation_output_bytes"`
}

// CPU is the CPU time limit as a duration.
func (l Limits) CPU() time.Duration { return time.Duration(l.CPUMS) * time.Millisecond }

// Kinds of Checker.
const (
	CheckerTokens  = "tokens"  // the comparator built in, with TokenOptions
	CheckerProgram = "program" // a program of the package, ICPC calling convention
	// CheckerInteractor is such a program that talks with the submission while
	// it runs: it reads its output, and what it writes is its input.
	CheckerInteractor = "interactor"
)

// Checker decides whether an output, or a behaviour, is right.
type Checker struct {
	Kind   string       `json:"kind"`
	Tokens TokenOptions `json:"tokens,omitzero"`
	// Program is the directory of the checker's source files, relative to the
	// package root; Language the gavel language id it is built with, or
	// "script" when it brings executables build and run.
	Program  string   `json:"program,omitempty"`
	Language string   `json:"language,omitempty"`
	Args     []string `json:"args,omitempty"`
}

// LanguageScript is the language of programs that bring executables build and
// run instead of sources.
const LanguageScript = "script"

// Program is a program of the package beside its checker.
type Program struct {
	// Path is a source file, or the directory of the source files, relative to
	// the package root; Language as in Checker.
	Path     string `json:"path"`
	Language string `json:"language"`
}

// TokenOptions are the flags of the ICPC default validator. Tolerances are
// decimal strings, exactly as in the package; empty means not given.
type TokenOptions struct {
	CaseSensitive        bool   `json:"case_sensitive,omitempty"`
	SpaceChangeSensitive bool   `json:"space_change_sensitive,omitempty"`
	FloatRelative        string `json:"float_relative_tolerance,omitempty"`
	FloatAbsolute        string `json:"float_absolute_tolerance,omitempty"`
}

// Test is one case. Paths are relative to the package root.
type Test struct {
	Name   string   `json:"name"` // path below data/ without extension, e.g. "secret/03-max"
	Sample bool     `json:"sample,omitempty"`
	Input  string   `json:"input"`
	Answer string   `json:"answer"`
	Args   []string `json:"args,omitempty"` // argv of the submission
	// InputArgs are given to the input validators.
	InputArgs []string `json:"input_args,omitempty"`
	// CheckerArgs replaces Checker.Args for program checkers when not nil.
	CheckerArgs []string `json:"checker_args,omitempty"`
	// Tokens replaces Checker.Tokens when not nil.
	Tokens *TokenOptions `json:"tokens,omitempty"`
}

// Kinds of Trial.
const (
	TrialInvalidInput  = "invalid_input"  // an input that some input validator must refuse; it has no answer
	TrialInvalidOutput = "invalid_output" // an output that the checker must refuse
	TrialValidOutput   = "valid_output"   // an output that the checker must accept
)

// Trial is an input, or an output for one, of which is known what the package's
// programs must say.
type Trial struct {
	Test

	Kind   string `json:"kind"`
	Output string `json:"output,omitempty"` // its path; an invalid input has none
}

// HasTrial reports whether some trial is of a kind.
func (m *Manifest) HasTrial(kind string) bool {
	return slices.ContainsFunc(m.Trials, func(t Trial) bool { return t.Kind == kind })
}

// Example is a jury submission with what it is meant to get.
type Example struct {
	Path     string   `json:"path"`     // file, relative to the package root
	Language string   `json:"language"` // gavel language id
	Expected []string `json:"expected"` // acceptable final verdicts, e.g. ["WA"] or ["TLE","RE"]
}

// File is one file of the package.
type File struct {
	Path       string `json:"path"`
	SizeBytes  int64  `json:"size_bytes"`
	SHA256     string `json:"sha256"`
	Executable bool   `json:"executable,omitempty"`
}
