package icpc

import (
	"path"
	"slices"
	"strings"

	"github.com/gavel-oj/gavel/internal/apperr"
)

// The names of the files that set things for all tests of a directory.
const (
	groupName  = "test_group.yaml" // 2025-09
	legacyName = "testdata.yaml"
)

// settings are what tests inherit from their directories.
type settings struct {
	checkerArgs []string
	checkerAt   string // where they were given, for messages
	args        []string
	inputArgs   []string
}

// groups reads the settings of directories below data/ once each.
type groups struct {
	im        *importer
	byDir     map[string]settings
	newStyle  bool // some test_group.yaml exists
	warnedOld bool
}

func newGroups(im *importer) *groups {
	g := &groups{im: im, byDir: map[string]settings{}}
	for _, p := range im.files.below("data") {
		g.newStyle = g.newStyle || path.Base(p) == groupName
	}
	return g
}

// of returns the settings for the tests in dir.
func (g *groups) of(dir string) (settings, error) {
	if s, ok := g.byDir[dir]; ok {
		return s, nil
	}
	var s settings
	var err error
	if dir == "data" {
		// The flags of problem.yaml come first, then those of directories.
		s.checkerAt = g.im.conf.flagsAt
	} else if s, err = g.of(path.Dir(dir)); err != nil {
		return s, err
	}
	if err := g.read(dir, &s); err != nil {
		return s, err
	}
	g.byDir[dir] = s
	return s, nil
}

func (g *groups) read(dir string, s *settings) error {
	im := g.im
	file, old := dir+"/"+groupName, dir+"/"+legacyName
	switch {
	case im.files.has(file):
		if dir == "data" {
			im.warn.add("%s: the format has no such file at this place; it is read for all tests", file)
		}
		return im.readSettings(file, im.groupKeys(s), im.unknownKey)
	case !im.files.has(old):
		return nil
	case im.conf.dialect == dialect2025 && g.newStyle:
		im.warn.add("%s is left out: the package has %s files, as format 2025-09 wants", old, groupName)
		return nil
	case im.conf.dialect == dialect2025 && !g.warnedOld:
		g.warnedOld = true
		im.warn.add("%s is of the older format; it is read as such, since the package has no %s", old, groupName)
	}
	return im.readSettings(old, im.legacyGroupKeys(s), func(_ string, v value) error {
		im.warn.add("%s: %s: the key is not known and has no effect", v.place(), v.key)
		return nil
	})
}

func (im *importer) readSettings(file string, keys map[string]func(value) error, unknown func(string, value) error) error {
	b, err := readSmall(im.fsys, file, maxCaseBytes)
	if err != nil {
		return err
	}
	root, err := parseYAML(im.ctx, file, b)
	if err != nil {
		return err
	}
	return root.each(keys, unknown)
}

// groupKeys are those of test_group.yaml.
func (im *importer) groupKeys(s *settings) map[string]func(value) error {
	keys := im.caseKeys(s)
	delete(keys, "hint")
	delete(keys, "description")
	for _, k := range []string{"max_score", "score_aggregation", "static_validation_score", "require_pass"} {
		keys[k] = func(v value) error {
			return v.failCode(apperr.Unsupported, "remove it; "+notYetHint, "the key belongs to scoring problems")
		}
	}
	return keys
}

// caseKeys are those of a test's own .yaml.
func (im *importer) caseKeys(s *settings) map[string]func(value) error {
	keys := map[string]func(value) error{
		"args":                   func(v value) (err error) { s.args, err = v.texts(); return err },
		"output_validator_args":  im.checkerArgs(s),
		"input_validator_args":   im.inputArgs(s),
		"input_visualizer_args":  nil,
		"output_visualizer_args": nil,
		"full_feedback":          nil,
		"hint":                   nil,
		"description":            nil,
	}
	if im.conf.dialect != dialect2025 {
		keys["output_validator_flags"] = im.checkerArgs(s)
		keys["input_validator_flags"] = im.inputArgs(s)
	}
	return keys
}

// checkerArgs reads arguments of the output validator; the older formats
// write them as one text, or as a map with the key flags.
func (im *importer) checkerArgs(s *settings) func(value) error {
	return func(v value) (err error) {
		s.checkerAt = v.place()
		if im.conf.dialect == dialect2025 {
			s.checkerArgs, err = v.texts()
			return err
		}
		s.checkerArgs, err = v.flags()
		return err
	}
}

// flags reads a list, words, or {name: …, flags: …}.
func (v value) flags() (args []string, err error) {
	if !v.mapping() {
		return v.words()
	}
	return args, v.each(map[string]func(value) error{
		"name":  nil,
		"flags": func(f value) (err error) { args, err = f.words(); return err },
	}, func(_ string, f value) error {
		return f.fail("write the flags as one text", "the key is not known here")
	})
}

// legacyGroupKeys are those of testdata.yaml. Scores mean nothing in pass-fail
// problems, but a grader that accepts in spite of failures would change the
// verdict.
func (im *importer) legacyGroupKeys(s *settings) map[string]func(value) error {
	return map[string]func(value) error{
		"output_validator_flags": func(v value) (err error) {
			s.checkerAt = v.place()
			s.checkerArgs, err = v.flags()
			return err
		},
		"output_validator_args": im.checkerArgs(s),
		"input_validator_flags": im.inputArgs(s),
		"input_validator_args":  im.inputArgs(s),
		"on_reject":             nil,
		"accept_score":          nil,
		"reject_score":          nil,
		"range":                 nil,
		"grading": func(v value) error {
			kind, err := v.text()
			if err != nil {
				return err
			}
			if kind == "custom" {
				return v.failCode(apperr.Unsupported, notYetHint, "graders of the package's own are not supported yet")
			}
			return nil
		},
		"grader_flags": func(v value) error {
			flags, err := v.words()
			if err != nil {
				return err
			}
			for _, f := range flags {
				if slices.Contains([]string{"always_accept", "accept_if_any_accepted"}, f) {
					return v.failCode(apperr.Unsupported, notYetHint, "the grader flag %s is not supported yet", f)
				}
			}
			return nil
		},
	}
}

// testName is a test's name: its path below data/ without the extension.
func testName(base string) string { return strings.TrimPrefix(base, "data/") }
