package icpc

import (
	"path"
	"slices"
	"strings"

	"github.com/gavel-oj/gavel/internal/problem"
)

// maxValidators bounds the input validators of a package.
const maxValidators = 20

// findValidators lists the input validators. They take no part in judging, so
// one that cannot be used is told of and left out.
func (im *importer) findValidators() error {
	roots := []string{"input_validators"}
	if im.conf.dialect != dialect2025 {
		roots = append(roots, "input_format_validators")
	}
	for _, root := range roots {
		var seen []string
		for _, p := range im.files.below(root) {
			child, _, nested := strings.Cut(strings.TrimPrefix(p, root+"/"), "/")
			if slices.Contains(seen, child) {
				continue
			}
			seen = append(seen, child)
			im.addValidator(root+"/"+child, nested)
		}
	}
	im.settleTrials()
	return nil
}

func (im *importer) addValidator(at string, dir bool) {
	if !dir && !isProgramFile(at) {
		return // a header, or a text for people
	}
	language := checkerLanguages[extensions[strings.ToLower(path.Ext(at))]]
	if dir {
		var err error
		if language, err = im.checkerLanguage(at, "input validator"); err != nil {
			im.leaveOut("%v; the inputs are not validated by it", err)
			return
		}
	}
	switch constant := im.placeholder(at); {
	case language == "":
		im.leaveOut("%s: the inputs are not validated by it, because gavel does not build its language", at)
	case constant != "":
		im.leaveOut("%s: the inputs are not validated by it, because it uses {{%s}}; constants are not replaced in programs yet", at, constant)
	case im.perValidator != "":
		im.leaveOut("%s: the inputs are not validated by it, because arguments for single validators (%s) are not supported yet", at, im.perValidator)
	case len(im.m.InputValidators) == maxValidators:
		im.leaveOut("%s: the inputs are not validated by it; a package has at most %d input validators", at, maxValidators)
	default:
		im.m.InputValidators = append(im.m.InputValidators, problem.Program{Path: at, Language: language})
	}
}

// leaveOut tells of a validator that is not run.
func (im *importer) leaveOut(format string, args ...any) {
	im.validatorsLeftOut++
	im.warn.add(format, args...)
}

// placeholder is the first constant that a program's files use, or "".
func (im *importer) placeholder(at string) string {
	if len(im.conf.constants) == 0 {
		return ""
	}
	files := im.files.below(at)
	if im.files.has(at) {
		files = []string{at}
	}
	for _, p := range files {
		text, err := readSmall(im.fsys, p, maxSourceBytes)
		if err != nil {
			continue // not a source: too large
		}
		for _, c := range im.conf.constants {
			if strings.Contains(string(text), "{{"+c+"}}") {
				return c
			}
		}
	}
	return ""
}

// inputArgs reads arguments of the input validators: for all of them, or, by
// their names, for each.
func (im *importer) inputArgs(s *settings) func(value) error {
	return func(v value) (err error) {
		if v.mapping() {
			if im.perValidator == "" {
				im.perValidator = v.place()
			}
			return nil
		}
		if im.conf.dialect == dialect2025 {
			s.inputArgs, err = v.texts()
			return err
		}
		s.inputArgs, err = v.words()
		return err
	}
}
