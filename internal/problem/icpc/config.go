package icpc

import (
	"maps"
	"slices"
	"strings"

	"github.com/gavel-oj/gavel/internal/apperr"
)

const configName = "problem.yaml"

// dialect is how strictly, and by which names, a package is read.
type dialect int

const (
	dialectLegacy dialect = iota // no version, "legacy", "legacy-icpc"
	dialectDraft                 // drafts: names of both, unknown keys are warnings
	dialect2025                  // 2025-09: unknown keys are errors
)

// versions maps problem_format_version to the manifest's format and dialect.
var versions = map[string]struct {
	format  string
	dialect dialect
}{
	"2025-09":       {Format2025, dialect2025},
	"2025-09-draft": {Format2025, dialectDraft},
	"draft":         {Format2025, dialectDraft},
	"2023-07":       {FormatDraft, dialectDraft},
	"2023-07-draft": {FormatDraft, dialectDraft},
	"legacy":        {FormatLegacy, dialectLegacy},
	"legacy-icpc":   {FormatLegacy, dialectLegacy},
}

// config is what problem.yaml and its companions say.
type config struct {
	dialect   dialect
	shortName string // only domjudge-problem.ini has one
	title     string // of no known language
	titles    map[string]string
	languages []string
	constants []string

	custom         bool // validation: custom
	validationAt   string
	interactive    bool
	interactiveAt  string
	validatorFlags []string
	flagsAt        string

	limits limitsConfig
}

// readConfig reads problem.yaml, domjudge-problem.ini and .timelimit.
func (im *importer) readConfig() error {
	im.conf = &config{titles: map[string]string{}}
	hasConfig, hasINI := im.files.has(configName), im.files.has(iniName)
	if !hasConfig && !hasINI {
		return apperr.New(apperr.Invalid, "add a problem.yaml at the top of the package", "there is no %s: this is not a problem package of the ICPC formats", configName)
	}
	im.m.Format = FormatLegacy
	if hasConfig {
		b, err := readSmall(im.fsys, configName, maxConfigBytes)
		if err != nil {
			return err
		}
		if len(b) != len(trimBOM(b)) {
			im.warn.add("%s starts with a byte order mark", configName)
		}
		root, err := parseYAML(im.ctx, configName, b)
		if err != nil {
			return err
		}
		if err := im.readVersion(root); err != nil {
			return err
		}
		if err := root.each(im.configKeys(), im.unknownKey); err != nil {
			return err
		}
	}
	if hasINI {
		if err := im.readINI(); err != nil {
			return err
		}
	}
	if err := im.readTimelimitFile(); err != nil {
		return err
	}
	if err := im.setTitles(); err != nil {
		return err
	}
	im.m.Languages = im.conf.languages
	return im.setLimits()
}

// readVersion must come first: it decides how the other keys are read.
func (im *importer) readVersion(root value) error {
	v := versions["legacy"]
	err := root.each(map[string]func(value) error{
		"problem_format_version": func(x value) error {
			s, err := x.text()
			if err != nil {
				return err
			}
			var ok bool
			if v, ok = versions[s]; !ok {
				return x.failCode(apperr.Unsupported, "known are "+strings.Join(slices.Sorted(maps.Keys(versions)), ", "), "version %q of the format is not known", s)
			}
			return nil
		},
	}, func(string, value) error { return nil })
	im.m.Format, im.conf.dialect = v.format, v.dialect
	return err
}

// unknownKey is strict in 2025-09, which says that such keys are errors, and
// only tells in the others, whose packages are full of them.
func (im *importer) unknownKey(name string, v value) error {
	if im.conf.dialect == dialect2025 {
		hint := "remove it, or correct its name"
		if h, old := olderKeys[v.key]; old && v.file == configName {
			hint = h
		}
		return v.fail(hint, "the key is not known in format 2025-09")
	}
	im.warn.add("%s: %s: the key is not known and has no effect", v.place(), v.key)
	return nil
}

// olderKeys are keys of problem.yaml that 2025-09 has given up, with what it
// has instead; packages that were brought over often keep one.
var olderKeys = map[string]string{
	"author":          "write credits instead",
	"source_url":      "write source: {name: …, url: …}",
	"validation":      "remove it; the directory output_validator/ makes the validator custom",
	"validator_flags": "write output_validator_args into data/sample/test_group.yaml and data/secret/test_group.yaml",
	"libraries":       "remove it",
	"grading":         "remove it",
}

// configKeys are the keys of problem.yaml in the package's dialect.
func (im *importer) configKeys() map[string]func(value) error {
	c := im.conf
	keys := map[string]func(value) error{
		"problem_format_version": nil,
		"name":                   im.readName,
		"type":                   im.readType,
		"uuid":                   nil,
		"version":                nil,
		"source":                 nil,
		"license":                nil,
		"rights_owner":           nil,
		"keywords":               nil,
		"limits":                 im.readLimits,
		"languages":              im.readLanguages,
	}
	if c.dialect != dialectLegacy {
		maps.Copy(keys, map[string]func(value) error{
			"credits":            nil,
			"embargo_until":      nil,
			"allow_file_writing": nil, // every box has a writable directory
			"constants": func(v value) error {
				return v.each(nil, func(name string, _ value) error {
					c.constants = append(c.constants, name)
					return nil
				})
			},
		})
	}
	if c.dialect != dialect2025 {
		maps.Copy(keys, map[string]func(value) error{
			"author":          nil,
			"source_url":      nil,
			"libraries":       nil,
			"grading":         im.readGrading,
			"validation":      im.readValidation,
			"validator_flags": im.readValidatorFlags,
		})
	}
	return keys
}

func (im *importer) readName(v value) error {
	if !v.mapping() {
		var err error
		im.conf.title, err = v.text()
		return err
	}
	return v.each(nil, func(lang string, t value) error {
		s, err := t.text()
		im.conf.titles[lang] = s
		return err
	})
}

// notYet are the types of problems that exist but are not judged yet.
var notYet = []string{"scoring", "multi-pass", "submit-answer"}

const notYetHint = "this version judges pass-fail and interactive problems only"

func (im *importer) readType(v value) error {
	types, err := v.words()
	if err != nil {
		return err
	}
	for _, t := range types {
		switch {
		case t == "pass-fail":
		case t == "interactive":
			im.conf.interactive, im.conf.interactiveAt = true, v.place()
		case slices.Contains(notYet, t):
			return v.failCode(apperr.Unsupported, notYetHint, "%s problems are not supported yet", t)
		default:
			return v.fail("write pass-fail or interactive", "type %q is not known", t)
		}
	}
	return nil
}

func (im *importer) readLanguages(v value) error {
	langs, err := v.words()
	if err != nil {
		return err
	}
	if slices.Contains(langs, "all") {
		langs = nil
	}
	im.conf.languages = langs
	return nil
}

// readGrading knows the legacy keys; they matter to scoring problems only.
func (im *importer) readGrading(v value) error {
	return v.each(map[string]func(value) error{
		"objective": nil, "show_test_data_groups": nil,
		"accept_score": nil, "reject_score": nil, "range": nil, "on_reject": nil,
	}, im.unknownKey)
}

func (im *importer) readValidation(v value) error {
	words, err := v.words()
	if err != nil {
		return err
	}
	for _, w := range words {
		switch w {
		case "default":
			im.conf.custom = false
		case "custom":
			im.conf.custom, im.conf.validationAt = true, v.place()
		case "interactive":
			im.conf.interactive, im.conf.interactiveAt = true, v.place()
		case "multi-pass":
			return v.failCode(apperr.Unsupported, notYetHint, "%s problems are not supported yet", w)
		case "score":
			return v.failCode(apperr.Unsupported, notYetHint, "scoring problems are not supported yet")
		default:
			return v.fail("write default, custom or custom interactive", "%q is not known", w)
		}
	}
	return nil
}

func (im *importer) readValidatorFlags(v value) error {
	var err error
	im.conf.validatorFlags, err = v.words()
	im.conf.flagsAt = v.place()
	return err
}

// setTitles gives each title its language. A single name without one is that
// of the only statement, or English.
func (im *importer) setTitles() error {
	c := im.conf
	if c.title != "" {
		lang := "en"
		if langs := im.statementLanguages(); len(langs) == 1 {
			lang = langs[0]
		}
		if c.titles[lang] == "" {
			c.titles[lang] = c.title
		}
	}
	maps.DeleteFunc(c.titles, func(_, t string) bool { return strings.TrimSpace(t) == "" })
	if len(c.titles) == 0 {
		if c.dialect == dialect2025 {
			return apperr.New(apperr.Invalid, "add a line 'name: …' with the title", "the key name is missing").At(configName)
		}
		im.warn.add("%s gives no name; the short name is shown as the title", configName)
	}
	im.m.Titles = c.titles
	return nil
}

// statementLanguages lists the languages of the statement files.
func (im *importer) statementLanguages() []string {
	var langs []string
	for _, dir := range []string{"statement", "problem_statement"} {
		for _, p := range im.files.below(dir) {
			parts := strings.Split(strings.TrimPrefix(p, dir+"/"), ".")
			if len(parts) == 3 && parts[0] == "problem" && !slices.Contains(langs, parts[1]) {
				langs = append(langs, parts[1])
			}
		}
	}
	return langs
}
