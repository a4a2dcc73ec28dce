package intake

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

	"github.com/gavel-oj/gavel/internal/apperr"
)

// View is a package as it was handed over, as a read-only file system. It is
// safe for concurrent use.
type View struct {
	nodes  map[string]*node
	top    string
	files  int
	bytes  int64
	closer io.Closer
}

var (
	_ fs.ReadDirFS = (*View)(nil)
	_ fs.StatFS    = (*View)(nil)
)

// TopDir is the name of the directory around the package: the one in the zip,
// or the directory that was opened; empty when there is none.
func (v *View) TopDir() string { return v.top }

// Files is the number of files.
func (v *View) Files() int { return v.files }

// TotalBytes is the size of all files together.
func (v *View) TotalBytes() int64 { return v.bytes }

// Close releases what the view reads from. Files must not be read after it.
func (v *View) Close() error {
	if v.closer == nil {
		return nil
	}
	return v.closer.Close()
}

func (v *View) find(op, name string) (*node, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	n, ok := v.nodes[name]
	if !ok {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return n, nil
}

// Open implements fs.FS. Reading a file fails when it is damaged, or when it
// is not as large as it said.
func (v *View) Open(name string) (fs.File, error) {
	n, err := v.find("open", name)
	if err != nil {
		return nil, err
	}
	if n.dir {
		entries, err := v.ReadDir(name)
		return &openDir{info: info{path.Base(name), n}, entries: entries}, err
	}
	rc, err := n.open()
	if err != nil {
		return nil, readError(name, err)
	}
	return &openFile{info: info{path.Base(name), n}, name: name, rc: rc, left: n.size}, nil
}

// Stat implements fs.StatFS.
func (v *View) Stat(name string) (fs.FileInfo, error) {
	n, err := v.find("stat", name)
	if err != nil {
		return nil, err
	}
	return info{path.Base(name), n}, nil
}

// ReadDir implements fs.ReadDirFS.
func (v *View) ReadDir(name string) ([]fs.DirEntry, error) {
	n, err := v.find("readdir", name)
	if err != nil {
		return nil, err
	}
	if !n.dir {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: errors.New("not a directory")}
	}
	entries := make([]fs.DirEntry, len(n.children))
	for i, c := range n.children {
		entries[i] = fs.FileInfoToDirEntry(info{c, v.nodes[path.Join(name, c)]})
	}
	return entries, nil
}

// info implements fs.FileInfo.
type info struct {
	name string
	n    *node
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.n.size }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.n.dir }
func (i info) Sys() any           { return nil }

func (i info) Mode() fs.FileMode {
	switch {
	case i.n.dir:
		return fs.ModeDir | 0o555
	case i.n.executable:
		return 0o555
	}
	return 0o444
}

type openFile struct {
	info   info
	name   string
	rc     io.ReadCloser
	left   int64
	failed bool
}

func (f *openFile) Stat() (fs.FileInfo, error) { return f.info, nil }

// Close does not repeat an error that Read has given already, as the
// decompressor would.
func (f *openFile) Close() error {
	err := f.rc.Close()
	if f.failed || err == nil {
		return nil
	}
	return readError(f.name, err)
}

func (f *openFile) Read(p []byte) (int, error) {
	n, err := f.rc.Read(p)
	f.left -= int64(n)
	switch {
	case f.left < 0 || err == io.EOF && f.left > 0:
		f.failed = true
		return 0, readError(f.name, fmt.Errorf("it is not %s long, as it said", size(f.info.n.size)))
	case err != nil && err != io.EOF:
		f.failed = true
		return n, readError(f.name, err)
	}
	return n, err
}

func readError(name string, err error) error {
	return apperr.New(apperr.Invalid, "pack it again and send it once more", "cannot be read: %v", cause(err)).At(entryField(name))
}

type openDir struct {
	info    info
	entries []fs.DirEntry
}

func (d *openDir) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *openDir) Close() error               { return nil }

func (d *openDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.info.name, Err: errors.New("is a directory")}
}

func (d *openDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 || n > len(d.entries) {
		if n > 0 && len(d.entries) == 0 {
			return nil, io.EOF
		}
		n = len(d.entries)
	}
	head := d.entries[:n]
	d.entries = d.entries[n:]
	return head, nil
}

// size writes a number of bytes as people do.
func size(n int64) string {
	for _, u := range []struct {
		shift int
		name  string
	}{{30, "GiB"}, {20, "MiB"}, {10, "KiB"}} {
		if n >= 1<<u.shift && n%(1<<u.shift) == 0 {
			return fmt.Sprintf("%d %s", n>>u.shift, u.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// kinds are file types that people rename to .zip, by their first bytes.
var kinds = []struct {
	offset int
	magic  string
	name   string
}{
	{0, "Rar!\x1a\x07", "a RAR file"},
	{0, "7z\xbc\xaf\x27\x1c", "a 7-Zip file"},
	{0, "\x1f\x8b", "a gzip file (perhaps .tar.gz)"},
	{0, "\xfd7zXZ\x00", "an xz file (perhaps .tar.xz)"},
	{0, "BZh", "a bzip2 file (perhaps .tar.bz2)"},
	{0, "\x28\xb5\x2f\xfd", "a Zstandard file (perhaps .tar.zst)"},
	{257, "ustar", "a tar file"},
	{0, "%PDF-", "a PDF file"},
	{0, "\x7fELF", "a Linux program"},
	{0, "MZ", "a Windows program"},
	{0, "\xd0\xcf\x11\xe0", "an old Office document"},
	{0, "<!DOCTYPE", "an HTML or XML page"},
	{0, "<html", "an HTML page"},
	{0, "<?xml", "an XML file"},
	{0, "{", "a JSON file"},
}

// sniffBytes is how much sniff wants to see.
const sniffBytes = 512

// sniff names the type of a file that is not a zip.
func sniff(head []byte) string {
	if len(head) == 0 {
		return "an empty file"
	}
	for _, k := range kinds {
		if len(head) >= k.offset && bytes.HasPrefix(head[k.offset:], []byte(k.magic)) {
			return k.name
		}
	}
	if i := bytes.IndexFunc(head, func(r rune) bool { return r < ' ' && r != '\n' && r != '\r' && r != '\t' || r == 0xfffd }); i < 0 || i >= len(head)-3 {
		return "a text file"
	}
	return "a file of an unknown type"
}
