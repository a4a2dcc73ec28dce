package problem

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"sort"
	"strings"
	"unicode/utf8"
)

var nameRE = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// ValidName reports whether s can be the short name of a problem.
func ValidName(s string) bool { return nameRE.MatchString(s) }

// Validate checks that m is a package that can be stored and judged: every
// path is safe and listed once, every test's files exist, no limit is zero.
// Importers call it last, and a worker calls it on whatever it was sent, so a
// manifest that was made up does no harm.
func (m *Manifest) Validate() error {
	if m.Schema != 1 {
		return fmt.Errorf("manifest: schema %d is not known to this version (it knows 1): upgrade gavel on this machine", m.Schema)
	}
	if !ValidName(m.Name) {
		return fmt.Errorf("manifest: name %q is not a short name: lower-case letters, digits, '.', '_' and '-', at most 64", m.Name)
	}
	if err := m.Limits.validate(); err != nil {
		return err
	}
	files, err := m.validateFiles()
	if err != nil {
		return err
	}
	if err := m.validateTests(files); err != nil {
		return err
	}
	if err := m.validateTrials(files); err != nil {
		return err
	}
	if err := m.validateChecker(); err != nil {
		return err
	}
	for _, v := range m.InputValidators {
		if err := CheckPath(v.Path); err != nil {
			return fmt.Errorf("manifest: input validator %q: %w", v.Path, err)
		}
		if v.Language == "" || !files[v.Path] && len(m.Below(v.Path)) == 0 {
			return fmt.Errorf("manifest: input validator %q has no language or no files", v.Path)
		}
	}
	for _, s := range m.Submissions {
		if !files[s.Path] {
			return fmt.Errorf("manifest: submission %q is not among the files", s.Path)
		}
		if s.Language == "" || len(s.Expected) == 0 {
			return fmt.Errorf("manifest: submission %q has no language or no expected verdict", s.Path)
		}
	}
	return nil
}

func (l Limits) validate() error {
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"cpu_ms", l.CPUMS},
		{"memory_bytes", l.MemoryBytes},
		{"output_bytes", l.OutputBytes},
		{"code_bytes", l.CodeBytes},
		{"processes", int64(l.Processes)},
		{"validation_cpu_ms", l.ValidationCPUMS},
		{"validation_memory_bytes", l.ValidationMemoryBytes},
		{"validation_output_bytes", l.ValidationOutputBytes},
	} {
		if f.value <= 0 {
			return fmt.Errorf("manifest: limits.%s is %d: a limit must be greater than 0", f.name, f.value)
		}
	}
	if l.CompileCPUMS < 0 || l.CompileMemoryBytes < 0 {
		return fmt.Errorf("manifest: a compile limit is negative")
	}
	return nil
}

// CheckPath reports why p cannot be a path inside a package, nil when it can.
func CheckPath(p string) error {
	switch {
	case p == "" || p == ".":
		return fmt.Errorf("an empty path")
	case len(p) > MaxPathBytes:
		return fmt.Errorf("a path of %d bytes (at most %d)", len(p), MaxPathBytes)
	case !utf8.ValidString(p):
		return fmt.Errorf("a path that is not UTF-8")
	case strings.ContainsRune(p, '\\'):
		return fmt.Errorf("a path with a backslash")
	case path.IsAbs(p):
		return fmt.Errorf("an absolute path")
	case !fs.ValidPath(p):
		return fmt.Errorf("a path with \"..\" or empty elements")
	}
	for _, r := range p {
		if r < ' ' || r == 0x7f {
			return fmt.Errorf("a path with a control character")
		}
	}
	return nil
}

func (m *Manifest) validateFiles() (map[string]bool, error) {
	if len(m.Files) > MaxFiles {
		return nil, fmt.Errorf("manifest: %d files (at most %d)", len(m.Files), MaxFiles)
	}
	files := make(map[string]bool, len(m.Files))
	dirs := make(map[string]bool)
	var total int64
	for i, f := range m.Files {
		if err := CheckPath(f.Path); err != nil {
			return nil, fmt.Errorf("manifest: file %q: %w", f.Path, err)
		}
		if f.Path == ManifestName {
			return nil, fmt.Errorf("manifest: file %q: the name is gavel's own", f.Path)
		}
		if i > 0 && m.Files[i-1].Path >= f.Path {
			return nil, fmt.Errorf("manifest: file %q: files are not sorted, or listed twice", f.Path)
		}
		if f.SizeBytes < 0 || f.SizeBytes > MaxPackageBytes {
			return nil, fmt.Errorf("manifest: file %q: size %d", f.Path, f.SizeBytes)
		}
		if total += f.SizeBytes; total > MaxPackageBytes {
			return nil, fmt.Errorf("manifest: the files are larger than %d bytes together", MaxPackageBytes)
		}
		if !isSHA256Hex(f.SHA256) {
			return nil, fmt.Errorf("manifest: file %q: sha256 %q is not 64 hexadecimal digits", f.Path, f.SHA256)
		}
		files[f.Path] = true
		for d := path.Dir(f.Path); d != "." && !dirs[d]; d = path.Dir(d) {
			dirs[d] = true
		}
	}
	for _, f := range m.Files {
		if dirs[f.Path] || f.Path == ManifestName {
			return nil, fmt.Errorf("manifest: %q is both a file and a directory", f.Path)
		}
	}
	if dirs[ManifestName] {
		return nil, fmt.Errorf("manifest: directory %q: the name is gavel's own", ManifestName)
	}
	return files, nil
}

func (m *Manifest) validateTests(files map[string]bool) error {
	if len(m.Tests) == 0 {
		return fmt.Errorf("manifest: the package has no tests")
	}
	seen := make(map[string]bool, len(m.Tests))
	for _, t := range m.Tests {
		if t.Name == "" || seen[t.Name] {
			return fmt.Errorf("manifest: test %q has no name or a name used twice", t.Name)
		}
		seen[t.Name] = true
		for _, p := range []string{t.Input, t.Answer} {
			if !files[p] {
				return fmt.Errorf("manifest: test %q: %q is not among the files", t.Name, p)
			}
		}
	}
	return nil
}

// validateTrials wants of each kind the files that it is made of, and no others.
func (m *Manifest) validateTrials(files map[string]bool) error {
	for _, t := range m.Trials {
		var want []string
		switch t.Kind {
		case TrialInvalidInput:
			want = []string{t.Input}
		case TrialInvalidOutput, TrialValidOutput:
			want = []string{t.Input, t.Answer, t.Output}
		default:
			return fmt.Errorf("manifest: trial %q is of the kind %q, which is not known", t.Name, t.Kind)
		}
		if t.Name == "" {
			return fmt.Errorf("manifest: a trial has no name")
		}
		for _, p := range want {
			if !files[p] {
				return fmt.Errorf("manifest: trial %q: %q is not among the files", t.Name, p)
			}
		}
	}
	return nil
}

func (m *Manifest) validateChecker() error {
	c := m.Checker
	switch c.Kind {
	case CheckerTokens:
		return nil
	case CheckerProgram, CheckerInteractor:
	default:
		return fmt.Errorf("manifest: checker kind %q is not known (%s, %s, %s)", c.Kind, CheckerTokens, CheckerProgram, CheckerInteractor)
	}
	if c.Language == "" {
		return fmt.Errorf("manifest: the checker program has no language")
	}
	if c.Program != "." {
		if err := CheckPath(c.Program); err != nil {
			return fmt.Errorf("manifest: checker program %q: %w", c.Program, err)
		}
	}
	if len(m.Below(c.Program)) == 0 {
		return fmt.Errorf("manifest: checker program %q holds no files", c.Program)
	}
	return nil
}

// Below returns the files under directory dir, in the manifest's order. The
// slice is part of m.Files; do not change it.
func (m *Manifest) Below(dir string) []File {
	if dir == "." {
		return m.Files
	}
	prefix, after := dir+"/", dir+"0" // '0' follows '/'
	from := sort.Search(len(m.Files), func(i int) bool { return m.Files[i].Path >= prefix })
	to := sort.Search(len(m.Files), func(i int) bool { return m.Files[i].Path >= after })
	return m.Files[from:to]
}

// TotalBytes is the sum of the sizes of the package's files.
func (m *Manifest) TotalBytes() int64 {
	var n int64
	for _, f := range m.Files {
		n += f.SizeBytes
	}
	return n
}
