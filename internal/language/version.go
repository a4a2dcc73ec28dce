package language

import (
	"path"
	"regexp"
	"strings"
)

var (
	aside         = regexp.MustCompile(`\([^()]*\)|\[[^\[\]]*\]`)
	versionNumber = regexp.MustCompile(`(?:^|\s)[a-z]*([0-9]+(?:\.[0-9]+)+[A-Za-z0-9]*)`)
)

// ShortVersion is a toolchain's name and number, of what it says of its
// version: "g++ 12.2.0" of "g++ (Debian 12.2.0-14+deb12u1) 12.2.0". The first
// line with a number counts, because some warn before. One without a name gets
// the program's.
func ShortVersion(program, text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, line := range lines {
		if short, ok := shortVersion(program, line); ok {
			return short
		}
	}
	return strings.Join(strings.Fields(lines[0]), " ")
}

func shortVersion(program, line string) (string, bool) {
	line = aside.ReplaceAllString(line, " ")
	m := versionNumber.FindStringSubmatchIndex(line)
	if m == nil {
		return "", false
	}
	var name []string
	for w := range strings.FieldsSeq(strings.ReplaceAll(line[:m[0]], ",", " ")) {
		if !strings.EqualFold(w, "version") && !strings.HasSuffix(w, ":") {
			name = append(name, w)
		}
	}
	if len(name) == 0 && program != "" {
		name = []string{path.Base(program)}
	}
	return strings.Join(append(name, line[m[2]:m[3]]), " "), true
}
