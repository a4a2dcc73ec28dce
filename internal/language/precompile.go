package language

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Placeholders in the words of a Precompile.
const (
	// ArgHeader stands for the header's full path in Make.
	ArgHeader = "{header}"
	// ArgPrecompiled stands for the directory that holds File in Use.
	ArgPrecompiled = "{precompiled}"
)

// Precompile says how a compiler is given the header that most sources of a
// language begin with, compiled ahead. Its commands are the compile step's own
// with other words in the place of {sources}: so their flags can never differ
// from those of the sources they are for.
type Precompile struct {
	// Header is how sources include it: #include <Header>.
	Header string `yaml:"header"`
	// File is what the compiler looks for instead, below a directory that Use
	// names.
	File string `yaml:"file"`
	// List makes the step write to {program} a make rule that names every file
	// that Header is made of.
	List []string `yaml:"list"`
	// Tools makes it print the paths of the compiler's own parts, one a line,
	// on which a compiled header depends as well. Optional.
	Tools []string `yaml:"tools"`
	// Make makes it write the compiled header to {program}.
	Make []string `yaml:"make"`
	// Use makes it compile the sources with what Make left.
	Use []string `yaml:"use"`
	// Redo are texts in the log of a compile with the header that show that
	// the log would be another one without; the step is then repeated without.
	Redo []string `yaml:"redo"`
}

// PrecompileToolsArgv is the command that prints the compiler's parts; nil
// when there is none.
func (l *Language) PrecompileToolsArgv() []string {
	if len(l.Precompile.Tools) == 0 {
		return nil
	}
	return l.CompileArgv(l.Precompile.Tools...)
}

// ForHeader is what to give CompileArgv instead of sources, so that the header
// at that path is compiled ahead.
func (p *Precompile) ForHeader(header string) []string {
	return replace(p.Make, ArgHeader, header)
}

// ForSources is what to give CompileArgv instead of sources, so that the
// compiler finds the compiled header below dir.
func (p *Precompile) ForSources(dir string, sources ...string) []string {
	return expand(replace(p.Use, ArgPrecompiled, dir), "", sources)
}

func replace(words []string, placeholder, value string) []string {
	words = slices.Clone(words)
	for i, w := range words {
		if w == placeholder {
			words[i] = value
		}
	}
	return words
}

// problems are what is wrong with p; program is the step's.
func (p *Precompile) problems(program string) (errs []error) {
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("precompile."+format, args...))
		}
	}
	refuse(program == "", "header needs compile.program, for what is compiled ahead")
	for name, value := range map[string]string{"header": p.Header, "file": p.File} {
		refuse(value == "" || path.IsAbs(value) || path.Clean(value) != value || strings.HasPrefix(value, "..") ||
			strings.ContainsAny(value, "<>\"\\ \n"), "%s %q must be a clean relative path", name, value)
	}
	refuse(p.File == p.Header, "file must not be header itself")
	refuse(len(p.List) == 0, "list is missing")
	refuse(!slices.Contains(p.Make, ArgHeader), "make must contain %s", ArgHeader)
	refuse(!slices.Contains(p.Use, ArgPrecompiled), "use must contain %s", ArgPrecompiled)
	refuse(!slices.Contains(p.Use, ArgSources), "use must contain %s", ArgSources)
	return errs
}
