package language

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

//go:embed data/*.yaml
var builtin embed.FS

// Registry is a set of languages. It is read-only and safe for concurrent use.
type Registry struct {
	byID map[string]*Language
	all  []*Language // by id
}

// Builtin loads the languages that gavel ships.
func Builtin() (*Registry, error) {
	sub, err := fs.Sub(builtin, "data")
	if err != nil {
		return nil, fmt.Errorf("open the languages shipped: %w", err)
	}
	return Load(sub)
}

// Load reads every *.yaml file at the top of fsys. A key that does not exist,
// a missing value or two files that contradict each other is an error that
// names the file, and where it can the line.
func Load(fsys fs.FS) (*Registry, error) {
	names, err := fs.Glob(fsys, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list language files: %w", err)
	}
	if len(names) == 0 {
		return nil, errors.New("no language files (*.yaml)")
	}
	r := &Registry{byID: make(map[string]*Language, len(names))}
	for _, name := range names {
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, fmt.Errorf("read language file: %w", err)
		}
		l, err := Parse(text)
		if err != nil {
			return nil, fmt.Errorf("language file %s: %w", name, err)
		}
		if want := strings.TrimSuffix(name, ".yaml"); l.ID != want {
			return nil, fmt.Errorf("language file %s: id is %q, must be the file's name %q", name, l.ID, want)
		}
		r.byID[l.ID] = l
		r.all = append(r.all, l)
	}
	slices.SortFunc(r.all, func(a, b *Language) int { return strings.Compare(a.ID, b.ID) })
	return r, r.checkExtensions()
}

// Parse reads one language file.
func Parse(text []byte) (*Language, error) {
	var l Language
	if err := yaml.UnmarshalWithOptions(text, &l, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("parse: %s", strings.TrimSpace(yaml.FormatError(err, false, true)))
	}
	if err := l.validate(); err != nil {
		return nil, err
	}
	return &l, nil
}

// All are the languages ordered by id.
func (r *Registry) All() []*Language { return slices.Clone(r.all) }

// Get is the language with that id.
func (r *Registry) Get(id string) (*Language, bool) {
	l, ok := r.byID[id]
	return l, ok
}

// ByExtension is the language for a file name when nobody says which: the
// only one with its extension, or the one declared as the default for it.
func (r *Registry) ByExtension(fileName string) (*Language, bool) {
	ext := extensionOf(fileName)
	var only *Language
	for _, l := range r.all {
		if slices.Contains(l.DefaultFor, ext) {
			return l, true
		}
		if slices.Contains(l.Extensions, ext) {
			only = l
		}
	}
	return only, only != nil
}

// checkExtensions holds ByExtension's promise: each extension has one owner.
func (r *Registry) checkExtensions() error {
	having, defaults := map[string][]string{}, map[string][]string{}
	for _, l := range r.all {
		for _, ext := range l.Extensions {
			having[ext] = append(having[ext], l.ID)
		}
		for _, ext := range l.DefaultFor {
			defaults[ext] = append(defaults[ext], l.ID)
		}
	}
	for ext, ids := range having {
		if len(ids) > 1 && len(defaults[ext]) != 1 {
			return fmt.Errorf("extension %q belongs to %s: exactly one of them must list it in default_for",
				ext, strings.Join(ids, ", "))
		}
	}
	return nil
}

func extensionOf(fileName string) string {
	return strings.ToLower(strings.TrimPrefix(path.Ext(fileName), "."))
}

var (
	validID   = regexp.MustCompile(`^[a-z][a-z0-9+_-]{0,31}$`)
	validFile = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	validExt  = regexp.MustCompile(`^[a-z0-9+]{1,8}$`)
	validEnv  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
)

func namesProgram(word string) bool { return strings.Contains(word, ArgProgram) }

func (l *Language) validate() error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(!validID.MatchString(l.ID), "id %q must match %s", l.ID, validID)
	refuse(l.Name == "", "name is missing")
	refuse(len(l.PackageCodes) == 0, "package_codes is missing")
	refuse(len(l.Extensions) == 0, "extensions is missing")
	for _, ext := range l.Extensions {
		refuse(!validExt.MatchString(ext), "extension %q must match %s", ext, validExt)
	}
	for _, ext := range l.DefaultFor {
		refuse(!slices.Contains(l.Extensions, ext), "default_for names %q, which is not among extensions", ext)
	}
	refuse(!validFile.MatchString(l.Source), "source %q must match %s", l.Source, validFile)
	for _, pattern := range l.Reserved {
		_, err := path.Match(pattern, "")
		refuse(err != nil || pattern != strings.ToLower(pattern), "reserved %q must be a pattern in lower case", pattern)
	}
	refuse(l.Compile.Program != "" && !validFile.MatchString(l.Compile.Program),
		"compile.program %q must match %s", l.Compile.Program, validFile)
	refuse(!slices.Contains(l.Compile.Argv, ArgSources), "compile.argv must contain %s", ArgSources)
	refuse(l.Interpreted() == slices.ContainsFunc(l.Compile.Argv, namesProgram),
		"compile.argv must contain %s when compile.program is given, and only then", ArgProgram)
	refuse(!slices.ContainsFunc(l.Run.Argv, namesProgram), "run.argv must contain %s", ArgProgram)
	for name, argv := range map[string][]string{
		"compile.argv": l.Compile.Argv, "run.argv": l.Run.Argv, "version.argv": l.Version.Argv,
	} {
		refuse(len(argv) == 0 || argv[0] != ArgProgram && !strings.HasPrefix(argv[0], "/usr/"),
			"%s must start with an absolute path below /usr, the only part of the machine that a box shows", name)
	}
	for _, entry := range slices.Concat(l.Compile.Env, l.Run.Env) {
		refuse(!validEnv.MatchString(entry), "env entry %q is not NAME=value", entry)
	}
	errs = append(errs, l.Compile.Limits.problems("compile.limits")...)
	errs = append(errs, l.toolchainProblems()...)
	refuse(l.Run.Processes <= 0, "run.processes must be above 0")
	refuse(l.Factors.CPUExtraMS < 0 || l.Factors.CPUExtraMS > maxLimitMS, "factors.cpu_extra_ms must be 0–%d", maxLimitMS)
	refuse(l.Factors.MemoryExtraBytes < 0, "factors.memory_extra_bytes must not be below 0")
	if l.Precompile != nil {
		errs = append(errs, l.Precompile.problems(l.Compile.Program)...)
	}
	refuse(l.SelfTest.Source == "" || l.SelfTest.Output == "", "self_test needs source and output")
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}
