package icpc

import (
	"path"
	"slices"
	"strings"

	"github.com/gavel-oj/gavel/internal/problem"
)

// The verdicts as gavel names them. Formats know fewer: what gavel calls MLE
// or OLE is a run-time error there, so their directory for those takes all
// three, while an annotation means what it says.
var (
	onlyAC   = []string{"AC"}
	onlyWA   = []string{"WA"}
	onlyTLE  = []string{"TLE"}
	onlyRE   = []string{"RE"}
	onlyMLE  = []string{"MLE"}
	onlyOLE  = []string{"OLE"}
	onlyCE   = []string{"CE"}
	runError = []string{"RE", "MLE", "OLE"}
)

// directories are what the directories of submissions/ promise.
var directories = map[string][]string{
	"accepted":            onlyAC,
	"wrong_answer":        onlyWA,
	"time_limit_exceeded": onlyTLE,
	"run_time_error":      runError,
	"rejected":            {"WA", "TLE", "RE", "MLE", "OLE"},
	"brute_force":         {"TLE", "RE", "MLE", "OLE"},
	"slow_accepted":       {"AC", "TLE"},
	// gavel's own:
	"memory_limit_exceeded": onlyMLE,
	"output_limit_exceeded": onlyOLE,
	"compile_error":         onlyCE,
}

// submissionLanguages maps a family to the language that a jury's submission
// is judged as when nothing else is said.
var submissionLanguages = map[string]string{"c": langC, "c++": langCPP17, "python": langPython3}

// languageCodes are those of submissions.yaml: the format's, and gavel's own.
var languageCodes = map[string]string{
	"c": langC, "cpp": langCPP17, "python3": langPython3, langCPP17: langCPP17, langCPP20: langCPP20,
}

// findSubmissions lists the jury's submissions with what they are meant to
// get. What cannot be used here is told of: it is no reason to refuse the
// problem.
func (im *importer) findSubmissions() error {
	rules, err := im.readRules()
	if err != nil {
		return err
	}
	files := im.files.below("submissions")
	for len(files) > 0 {
		// One submission is a file, or a directory, two levels down.
		parts := strings.SplitN(strings.TrimPrefix(files[0], "submissions/"), "/", 3)
		n := 1
		switch len(parts) {
		case 1:
			if files[0] != rulesName && files[0] != "submissions/submissions.json" {
				im.warn.add("%s is not in a directory that says what it is meant to get; left out", files[0])
			}
		case 2:
			im.addSubmission(rules, parts[0], files[:1])
		default:
			dir := "submissions/" + parts[0] + "/" + parts[1] + "/"
			for n < len(files) && strings.HasPrefix(files[n], dir) {
				n++
			}
			im.addSubmission(rules, parts[0], files[:n])
		}
		files = files[n:]
	}
	return nil
}

// addSubmission adds the submission made of files, below submissions/dir.
func (im *importer) addSubmission(rules []rule, dir string, files []string) {
	var source string
	for _, p := range files {
		if extensions[strings.ToLower(path.Ext(p))] == "" {
			continue
		}
		if source != "" {
			im.warn.add("%s: a submission of several files is not supported yet; left out", path.Dir(source))
			return
		}
		source = p
	}
	if source == "" {
		im.warn.add("%s: its language is not known to gavel; left out", files[0])
		return
	}
	text, err := readSmall(im.fsys, source, maxSourceBytes)
	if err != nil {
		im.warn.add("%v; left out", err)
		return
	}
	if int64(len(text)) > im.m.Limits.CodeBytes && !slices.Contains(directories[dir], "CE") {
		im.warn.add("%s: %d bytes, more than the %d that the problem allows for a source", source, len(text), im.m.Limits.CodeBytes)
	}
	noted, ok := im.annotation(source, text)
	if !ok {
		return
	}
	e := problem.Example{Path: source, Language: submissionLanguages[extensions[strings.ToLower(path.Ext(source))]]}
	e.Expected = im.expected(source, dir, noted)
	for _, r := range rules {
		if !r.matches(strings.TrimPrefix(source, "submissions/")) {
			continue
		}
		if r.language != "" {
			if e.Language = languageCodes[r.language]; e.Language == "" {
				im.warn.add("%s: its language %s is not known to gavel; left out", source, cut(r.language))
				return
			}
		}
		e.Expected = r.apply(e.Expected, dir)
	}
	if len(e.Expected) == 0 {
		im.warn.add("%s: nothing says what it is meant to get, or what is said contradicts itself; left out", source)
		return
	}
	im.m.Submissions = append(im.m.Submissions, e)
}

// expected joins what the directory and the annotation say. The annotation
// makes it narrower; when they exclude each other, the directory wins, as in
// DOMjudge.
func (im *importer) expected(source, dir string, noted []string) []string {
	promised := directories[dir]
	switch {
	case noted == nil:
		return promised
	case promised == nil:
		return noted
	}
	if both := intersect(promised, noted); len(both) > 0 {
		return both
	}
	im.warn.add("%s: its annotation says %s, but its directory says %s, which counts", source, strings.Join(noted, ", "), strings.Join(promised, ", "))
	return promised
}

func intersect(a, b []string) []string {
	var both []string
	for _, v := range a {
		if slices.Contains(b, v) {
			both = append(both, v)
		}
	}
	return both
}
