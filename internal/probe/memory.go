package probe

import (
	"io"
	"io/fs"
	"strings"
	"time"
)

// memory is a file system of a few small files, as far as an archive is made
// of it: it opens them by name.
type memory map[string]string

// Open implements fs.FS.
func (m memory) Open(name string) (fs.File, error) {
	text, ok := m[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &memoryFile{Reader: strings.NewReader(text), name: name, size: int64(len(text))}, nil
}

type memoryFile struct {
	io.Reader

	name string
	size int64
}

func (f *memoryFile) Close() error               { return nil }
func (f *memoryFile) Stat() (fs.FileInfo, error) { return f, nil }
func (f *memoryFile) Name() string               { return f.name[strings.LastIndexByte(f.name, '/')+1:] }
func (f *memoryFile) Size() int64                { return f.size }
func (f *memoryFile) Mode() fs.FileMode          { return 0o444 }
func (f *memoryFile) ModTime() time.Time         { return time.Time{} }
func (f *memoryFile) IsDir() bool                { return false }
func (f *memoryFile) Sys() any                   { return nil }
