package language

import (
	"fmt"
	"path"
	"strings"
)

// MaxFiles bounds the files of one source.
const MaxFiles = 64

// FileError says what is wrong with the names of a source's files. It is for
// their author to mend.
type FileError struct {
	Index  int    // of the file, the main one being 0
	Name   string // as given
	Reason string // a predicate, without the name
	Hint   string
}

func (e *FileError) Error() string { return fmt.Sprintf("file %q %s", e.Name, e.Reason) }

// Files says what is wrong with the names of a source of several files, the
// main one first: plain names, each once whatever its case, none that the
// toolchain would take for more than a file of the source, the main one with
// one of l's extensions. The error is a *FileError.
func (l *Language) Files(names ...string) error {
	if len(names) > MaxFiles {
		return &FileError{
			MaxFiles, names[MaxFiles], fmt.Sprintf("is one too many: a source has at most %d", MaxFiles), "join some of them",
		}
	}
	seen := make(map[string]bool, len(names))
	for i, name := range names {
		refuse := func(reason, hint string) error { return &FileError{i, name, reason, hint} }
		folded := strings.ToLower(name)
		switch {
		case !validFile.MatchString(name):
			return refuse("has a name that is no plain file name",
				"up to 64 letters, digits, dots, dashes and underscores, beginning with a letter or digit, without directories")
		case seen[folded]:
			// Also where only the case differs: such files cannot be told apart
			// on every machine that somebody wants to look at them.
			return refuse("has a name that another file of the source has", "rename one of them; upper and lower case count as the same")
		case l.reserves(folded):
			return refuse("has a name that means something else to "+l.Name, "rename it")
		}
		seen[folded] = true
	}
	if len(names) > 0 && !l.HasExtension(names[0]) {
		return &FileError{0, names[0], "is the main file and no " + l.Name, "the main file comes first, and its name ends in ." + strings.Join(l.Extensions, " or .")}
	}
	return nil
}

// reserves says whether no file of a source may have this name, in lower case.
func (l *Language) reserves(name string) bool {
	for _, pattern := range l.Reserved {
		if ok, err := path.Match(pattern, name); ok && err == nil {
			return true
		}
	}
	return false
}
