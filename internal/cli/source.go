package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/cmdline"
	"github.com/gavel-oj/gavel/internal/language"
)

// maxSourceBytes is the most that is read from the files of a source: above any
// source limit of a package, and what fits into a request in every encoding.
const maxSourceBytes = 2 << 20

// namedText is a file of a source.
type namedText struct {
	name string // without directories; empty for standard input
	text []byte
}

// readSources reads the files of one source, the main one first. Only the main
// one may be standard input, and only it must have something in it.
func readSources(stdin io.Reader, main string, more []string) ([]namedText, error) {
	if len(more) >= language.MaxFiles {
		return nil, usage("join some of them", "%d files: a source has at most %d", 1+len(more), language.MaxFiles)
	}
	text, err := readSource(stdin, main)
	if err != nil {
		return nil, err
	}
	files := []namedText{{text: text}}
	if main != "-" {
		files[0].name = filepath.Base(main)
	}
	total := len(text)
	for _, path := range more {
		if path == "-" {
			return nil, usage("write it to a file first", "only the main file can be standard input")
		}
		f := namedText{name: filepath.Base(path)}
		for _, other := range files {
			if strings.EqualFold(other.name, f.name) {
				return nil, usage("rename one: files of a source lie in one directory", "two files are called %s", f.name)
			}
		}
		if f.text, err = readFile(path); err != nil {
			return nil, err
		}
		if total += len(f.text); total > maxSourceBytes {
			return nil, usage("are they really source files?", "the files are together larger than the %s that a source may have", size(maxSourceBytes))
		}
		files = append(files, f)
	}
	return files, nil
}

// readSource reads the main file of a source and refuses what cannot be one,
// before anything is sent.
func readSource(stdin io.Reader, name string) ([]byte, error) {
	var text []byte
	var err error
	shown := name
	if name == "-" {
		shown = "standard input"
		text, err = readText(stdin, shown)
	} else {
		text, err = readFile(name)
	}
	if err == nil && len(text) == 0 {
		err = usage("name a file with a program in it", "%s is empty", shown)
	}
	return text, err
}

func readFile(name string) ([]byte, error) {
	f, err := cmdline.OpenFile(name)
	if errors.Is(err, syscall.EISDIR) {
		return nil, usage("name its files, the main one first; a problem package is published with: gavel problem import", "%s is a directory", name)
	}
	if err != nil {
		hint := "check the path"
		if errors.Is(err, fs.ErrPermission) {
			hint = "check the file's permissions"
		}
		return nil, usage(hint, "cannot read %s: %s", name, reason(err))
	}
	defer f.Close()
	return readText(f, name)
}

func readText(r io.Reader, shown string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxSourceBytes+1))
	switch at := bytes.IndexByte(data, 0); {
	case err != nil:
		return nil, failed("check the file", "cannot read %s: %s", shown, reason(err))
	case len(data) > maxSourceBytes:
		return nil, usage("is it really a source file?", "%s is larger than the %s that a source may have", shown, size(maxSourceBytes))
	case bytes.HasPrefix(data, []byte{0xff, 0xfe}) || bytes.HasPrefix(data, []byte{0xfe, 0xff}):
		return nil, usage("save it as UTF-8: iconv -f UTF-16 -t UTF-8", "%s is UTF-16 text", shown)
	case at >= 0:
		return nil, usage("is it a compiled program or an archive? submit the source", "%s contains a NUL byte at offset %d", shown, at)
	}
	return data, nil
}

// sizeOf describes a source's size.
func sizeOf(files int, bytes int64) string {
	if files < 2 {
		return size(bytes)
	}
	return fmt.Sprintf("%d files, %s", files, size(bytes))
}

// SubmissionSourceCmd is `gavel submission source`.
type SubmissionSourceCmd struct {
	ID  string `arg:"" help:"Number of the submission."`
	Dir string `short:"d" placeholder:"DIR" help:"Write the files here, under their names; nothing that is there is replaced."`
}

// Run implements kong's command.
func (cmd *SubmissionSourceCmd) Run(app *App) error {
	return withSubmission(app, cmd.ID, func(c *client.Client, id int64) error {
		src, err := c.SubmissionSource(app.Ctx, id)
		if err != nil {
			return err
		}
		if cmd.Dir != "" {
			if err := writeSource(cmd.Dir, src.Files); err != nil {
				return err
			}
		}
		if cmd.Dir != "" || app.Output != "table" && app.Output != "wide" {
			type F = gavelapi.SourceFile
			return printItems(app, src.Files, src, func(f F) string { return f.Name }, []column[F]{
				{name: "FILE", cell: func(f F) cell { return text(f.Name) }},
				{name: "BYTES", right: true, cell: func(f F) cell { return number(int64(len(f.Bytes()))) }},
			})
		}
		if len(src.Files) > 1 {
			return usage("write them to a directory with --dir, or see them with -o json", "submission %d has %d files", id, len(src.Files))
		}
		return app.printSource(src.Files[0].Bytes())
	})
}

// printSource prints a source: to a terminal with what could harm it escaped,
// elsewhere as it is.
func (a *App) printSource(source []byte) error {
	return a.printBytes(a.Out, a.OutTerminal, source)
}

// writeSource writes files that a submitter has named, each below dir and
// nowhere else.
func writeSource(dir string, files []gavelapi.SourceFile) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return failed("choose another --dir", "cannot make %s: %s", dir, reason(err))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return failed("choose another --dir", "cannot open %s: %s", dir, reason(err))
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	for _, file := range files {
		f, err := root.OpenFile(filepath.Base(file.Name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return failed("choose an empty directory with --dir", "cannot write %s: %s", filepath.Join(dir, clean(file.Name)), reason(err))
		}
		_, err = f.Write(file.Bytes())
		if err = errors.Join(err, f.Close()); err != nil {
			return failed("make room", "cannot write %s: %s", filepath.Join(dir, clean(file.Name)), reason(err))
		}
	}
	return nil
}
