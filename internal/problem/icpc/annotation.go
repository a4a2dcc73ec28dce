package icpc

import (
	"bytes"
	"slices"
	"strings"
)

// annotationTag marks DOMjudge's annotation in a source.
const annotationTag = "@EXPECTED_RESULTS@:"

// annotated maps the words of annotations to verdicts.
var annotated = map[string][]string{
	"CORRECT": onlyAC, "ACCEPTED": onlyAC,
	"WRONG-ANSWER": onlyWA, "WRONG_ANSWER": onlyWA,
	// No output at all is a wrong answer by another name.
	"NO-OUTPUT": onlyWA, "NO_OUTPUT": onlyWA,
	"TIMELIMIT": onlyTLE, "TIME_LIMIT_EXCEEDED": onlyTLE,
	"RUN-ERROR": onlyRE, "RUN_TIME_ERROR": onlyRE,
	"COMPILER-ERROR": onlyCE, "COMPILER_ERROR": onlyCE,
	"MEMORY-LIMIT": onlyMLE, "MEMORY_LIMIT": onlyMLE,
	"OUTPUT-LIMIT": onlyOLE, "OUTPUT_LIMIT": onlyOLE,
}

// annotation reads the verdicts that a source says of itself; nil when it says
// nothing, false when the submission cannot be used.
func (im *importer) annotation(source string, text []byte) ([]string, bool) {
	verdicts, unknown, times := parseAnnotation(text)
	switch {
	case times > 1:
		im.warn.add("%s: has the annotation %s %d times; left out", source, strings.TrimSuffix(annotationTag, ":"), times)
		return nil, false
	case unknown != "":
		im.warn.add("%s: its annotation says %q, which is no verdict; left out", source, unknown)
		return nil, false
	}
	return verdicts, true
}

// parseAnnotation finds "@EXPECTED_RESULTS@: A, B", in any letter case, up to
// the end of its line. It returns the first unknown word too, and how often
// the annotation occurs.
func parseAnnotation(text []byte) (verdicts []string, unknown string, times int) {
	for len(text) > 0 {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte("\n"))
		_, after, found := bytes.Cut(bytes.ToUpper(line), []byte(annotationTag))
		if !found {
			continue
		}
		if times++; times > 1 {
			continue
		}
		rest := strings.TrimSpace(strings.ToValidUTF8(string(after), "\ufffd"))
		rest = strings.TrimSpace(strings.TrimSuffix(rest, "*/"))
		for word := range strings.SplitSeq(rest, ",") {
			v, ok := annotated[strings.TrimSpace(word)]
			if !ok && unknown == "" {
				unknown = cut(strings.TrimSpace(word))
				if unknown == "" {
					unknown = " "
				}
			}
			for _, one := range v {
				if !slices.Contains(verdicts, one) {
					verdicts = append(verdicts, one)
				}
			}
		}
	}
	return verdicts, unknown, times
}
