package language

import "fmt"

// MaxFiles bounds the files of one source.
const MaxFiles = 64

// Files says what is wrong with the names of a source of several files, the
// main one first: plain names, each once, the main one with one of l's
// extensions. What is wrong is its author's to mend.
func (l *Language) Files(names ...string) error {
	if len(names) > MaxFiles {
		return fmt.Errorf("%d files: at most %d", len(names), MaxFiles)
	}
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		switch {
		case !validFile.MatchString(name):
			return fmt.Errorf("file name %q: up to 64 letters, digits, dots, dashes and underscores, not beginning with a dot or a dash", name)
		case seen[name]:
			return fmt.Errorf("two files are named %q", name)
		}
		seen[name] = true
	}
	if len(names) > 0 && !l.HasExtension(names[0]) {
		return fmt.Errorf("main file %q is no %s: its name must end in .%s", names[0], l.Name, l.Extensions[0])
	}
	return nil
}
