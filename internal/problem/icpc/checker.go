package icpc

import (
	"path"
	"slices"
	"strings"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/problem"
)

// The languages that gavel builds programs of packages with.
const (
	langC       = "c"
	langCPP17   = "cpp17"
	langCPP20   = "cpp20"
	langPython3 = "python3"
	langScript  = problem.LanguageScript // executables build and run of the package's own
)

// extensions maps a source's extension to a family of languages.
var extensions = map[string]string{
	".c": "c", ".cc": "c++", ".cpp": "c++", ".cxx": "c++", ".c++": "c++", ".py": "python", ".py3": "python",
}

// The newest language of each family, which checkers are built with. Checkers
// are written by setters for whatever compiler they have, so newer is safer.
var checkerLanguages = map[string]string{"c": langC, "c++": langCPP20, "python": langPython3}

// foreign are sources that a checker may be written in elsewhere; a directory
// with one of them has no checker that gavel could build.
var foreign = []string{".java", ".kt", ".rs", ".go", ".hs", ".pas", ".rb", ".cs", ".js", ".ctd", ".viva"}

// findChecker finds out how outputs are judged.
func (im *importer) findChecker() error {
	if f := im.files.first("graders"); f != "" {
		im.warn.add("graders/ has no meaning in pass-fail problems: %s", f)
	}
	dir, err := im.checkerDir()
	if err != nil {
		return err
	}
	if dir == "" && im.conf.interactive {
		return apperr.New(apperr.Invalid, "add the source of the program that talks with submissions in output_validator/ (before 2025-09: output_validators/)",
			"the problem is interactive, but the package has no output validator").At(im.conf.interactiveAt)
	}
	if dir == "" {
		im.m.Checker.Kind = problem.CheckerTokens
		return nil
	}
	lang, err := im.checkerLanguage(dir, "output validator")
	if err != nil {
		return err
	}
	im.m.Checker = problem.Checker{Kind: problem.CheckerProgram, Program: dir, Language: lang}
	if im.conf.interactive {
		im.m.Checker.Kind = problem.CheckerInteractor
	}
	return nil
}

// checkerDir returns the directory of the output validator's sources, or ""
// when the default one is used. In 2025-09 the directory's presence decides;
// in the older formats the key validation does.
func (im *importer) checkerDir() (string, error) {
	c := im.conf
	roots := []string{"output_validator"}
	if c.dialect != dialect2025 {
		roots = append(roots, "output_validators")
	}
	var found []string
	for _, r := range roots {
		if im.files.first(r) != "" {
			found = append(found, r)
		}
	}
	if len(found) > 1 {
		return "", apperr.New(apperr.Invalid, "keep one of them", "the package has both output_validator/ and output_validators/")
	}
	switch {
	case c.dialect == dialect2025 && im.files.first("output_validators") != "":
		return "", apperr.New(apperr.Invalid, "rename it to output_validator", "format 2025-09 has no directory output_validators/").At(im.files.first("output_validators"))
	case len(found) == 0 && c.custom:
		return "", apperr.New(apperr.Invalid, "add the validator's source in output_validators/, or set validation: default",
			"validation is custom, but the package has no output validator").At(c.validationAt)
	case len(found) == 0:
		return "", nil
	case c.dialect == dialectLegacy && !c.custom && !c.interactive:
		im.warn.add("%s/ is not used, because validation is not custom", found[0])
		return "", nil
	}
	return im.oneProgram(found[0])
}

// oneProgram finds the one program below dir: its files themselves, or those
// of its only directory.
func (im *importer) oneProgram(dir string) (string, error) {
	var sources, dirs []string
	for _, p := range im.files.below(dir) {
		rest := strings.TrimPrefix(p, dir+"/")
		sub, _, nested := strings.Cut(rest, "/")
		switch {
		case nested && !slices.Contains(dirs, sub):
			dirs = append(dirs, sub)
		case !nested && isProgramFile(rest):
			sources = append(sources, rest)
		}
	}
	switch {
	case len(sources) > 0: // directories beside it hold headers or data
		return dir, nil
	case len(dirs) == 1:
		return dir + "/" + dirs[0], nil
	case len(dirs) > 1:
		return "", apperr.New(apperr.Unsupported, "keep the one that decides", "%s/ holds %d programs (%s); one output validator is supported", dir, len(dirs), strings.Join(dirs[:min(len(dirs), 5)], ", ")).At(dir)
	}
	return dir, nil // what is in it decides in checkerLanguage
}

func isProgramFile(name string) bool {
	ext := strings.ToLower(path.Ext(name))
	return extensions[ext] != "" || slices.Contains(foreign, ext) || name == "build" || name == "run"
}

// checkerLanguage finds the language of the sources directly in dir, which are
// those of an output or input validator.
func (im *importer) checkerLanguage(dir, what string) (string, error) {
	fail := func(hint, format string, args ...any) (string, error) {
		return "", apperr.New(apperr.Unsupported, hint, format, args...).At(dir)
	}
	byFamily := map[string][]string{}
	var other []string
	for _, p := range im.files.below(dir) {
		name := strings.TrimPrefix(p, dir+"/")
		if strings.Contains(name, "/") {
			continue
		}
		ext := strings.ToLower(path.Ext(name))
		if fam := extensions[ext]; fam != "" {
			byFamily[fam] = append(byFamily[fam], name)
		} else if slices.Contains(foreign, ext) {
			other = append(other, name)
		}
	}
	if im.files.has(dir+"/build") || im.files.has(dir+"/run") {
		return im.scriptChecker(dir)
	}
	known := "write the " + what + " in C (.c), C++ (.cc, .cpp, .cxx) or Python 3 (.py), or bring executables build and run"
	switch {
	case len(byFamily) == 0 && len(other) > 0:
		return fail(known, "the %s %s is in a language that gavel does not build", what, other[0])
	case len(byFamily) == 0:
		return fail(known, "the directory holds no source of an %s", what)
	case len(byFamily) > 1 || len(other) > 0:
		return fail("keep one language", "the %s is written in several languages", what)
	}
	if names := byFamily["python"]; len(names) > 1 && !slices.Contains(names, "main.py") && !slices.Contains(names, "__main__.py") {
		return fail("name the one to start main.py", "the %s has %d Python files", what, len(names))
	}
	var lang string
	for fam := range byFamily { // just one is left
		lang = checkerLanguages[fam]
	}
	return lang, nil
}

// scriptChecker checks a program that builds itself.
func (im *importer) scriptChecker(dir string) (string, error) {
	for _, name := range []string{"build", "run"} {
		p := dir + "/" + name
		if im.files.has(p) && !im.files.exec[p] {
			return "", apperr.New(apperr.Invalid, "chmod +x it, and pack the package with a program that keeps modes", "is not executable").At(p)
		}
	}
	if !im.files.has(dir+"/run") && !im.files.has(dir+"/build") {
		return "", apperr.New(apperr.Invalid, "add an executable file run", "has neither build nor run").At(dir)
	}
	return langScript, nil
}
