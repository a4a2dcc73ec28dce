package judge

import (
	"bytes"
	"path/filepath"

	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/sandbox"
)

// sources are a task's files, written where a box can be shown them.
type sources struct {
	files []sourceFile // the main one first
	host  string       // the only file, or the directory of all
}

// layOut writes the task's source. A single file has the language's fixed name;
// several have the names that their author gave them, since they may name each
// other.
func (v *evaluation) layOut() (*sources, error) {
	s := &sources{files: []sourceFile{{v.lang.Source, v.task.Source}}}
	if len(v.task.More) == 0 {
		s.host = filepath.Join(v.dir, v.lang.Source)
		return s, writeFile(s.host, bytes.NewReader(v.task.Source), 0o444)
	}
	names := []string{v.task.SourceName}
	for _, f := range v.task.More {
		names = append(names, f.Name)
		s.files = append(s.files, sourceFile{f.Name, f.Text})
	}
	s.files[0].name = v.task.SourceName
	if err := v.lang.Files(names...); err != nil {
		return nil, faultf(BlamePackage, err, "files of the source") // refused where it came in, or a bug there
	}
	s.host = filepath.Join(v.dir, "source")
	if err := makeDir(s.host); err != nil {
		return nil, err
	}
	for _, f := range s.files {
		if err := writeFile(filepath.Join(s.host, f.name), bytes.NewReader(f.text), 0o444); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// at is the mount that shows the files below dir.
func (s *sources) at(dir string) sandbox.Mount {
	if len(s.files) == 1 {
		dir += "/" + s.files[0].name
	}
	return sandbox.Mount{Host: s.host, Box: dir}
}

// compiled are the files, in the box, that the compiler is given by name.
func (s *sources) compiled(lang *language.Language) (paths []string) {
	for i, f := range s.files {
		if i == 0 || !lang.Compile.MainOnly && lang.HasExtension(f.name) {
			paths = append(paths, sandbox.SourceDir+"/"+f.name)
		}
	}
	return paths
}
