// Package dirblob keeps blobs as files of one directory, each under its key.
// A blob is written to a temporary file in the same file system, synced, and
// renamed; so a key holds a whole blob or nothing.
//
// What is trusted: a local file system with working fsync, rename and flock.
// On failure: a process killed in the middle of a Put leaves a file in .tmp,
// which the next Open of the store removes unless its writer still lives (it
// holds a lock on the file, so several processes can share a store).
package dirblob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/blob"
)

// tmpName is where unfinished blobs live; no key starts with a dot.
const tmpName = ".tmp"

const copyBufferBytes = 256 << 10

// Store is a directory of blobs.
type Store struct {
	dir  string
	root *os.Root
}

var _ blob.Store = (*Store)(nil)

// Open makes dir if it is absent, removes what earlier processes left
// unfinished, and returns the store. Call Check before relying on it.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, unusable(dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, unusable(dir, err)
	}
	s := &Store{dir: dir, root: root}
	if err := s.removeLeftovers(); err != nil {
		return nil, errors.Join(unusable(dir, err), root.Close())
	}
	return s, nil
}

// Close releases the directory. Blobs that are open stay readable.
func (s *Store) Close() error { return s.root.Close() }

func (s *Store) removeLeftovers() error {
	if err := s.root.Mkdir(tmpName, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	entries, err := fs.ReadDir(s.root.FS(), tmpName)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := s.removeIfDead(path.Join(tmpName, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// removeIfDead removes an unfinished blob whose writer no longer holds it.
func (s *Store) removeIfDead(name string) error {
	f, err := s.root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // its writer was faster
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := flock(f, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil
		}
		return err
	}
	if err := s.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Put implements blob.Store.
func (s *Store) Put(ctx context.Context, key string, r io.Reader) error {
	if err := blob.CheckKey(key); err != nil {
		return err
	}
	if err := s.put(ctx, key, r); err != nil {
		return fmt.Errorf("put blob %s: %w", key, err)
	}
	return nil
}

func (s *Store) put(ctx context.Context, key string, r io.Reader) (err error) {
	tmp, name, err := s.createTemp()
	if err != nil {
		return err
	}
	renamed := false
	defer func() {
		err = errors.Join(err, tmp.Close())
		if !renamed {
			err = errors.Join(err, s.root.Remove(name))
		}
	}()
	buf := make([]byte, copyBufferBytes)
	if _, err := io.CopyBuffer(onlyWriter{tmp}, ctxReader{ctx, r}, buf); err != nil {
		return err
	}
	if err := tmp.Chmod(0o440); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	if err := s.makeParents(path.Dir(key)); err != nil {
		return err
	}
	// The last moment to give up: after the rename the blob is there.
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := s.root.Rename(name, key); err != nil {
		return err
	}
	renamed = true
	return s.sync(path.Dir(key))
}

// createTemp makes a locked file in .tmp. Between its creation and its lock a
// starting process may take it for a leftover; then another one is made.
func (s *Store) createTemp() (*os.File, string, error) {
	for range 100 {
		f, err := os.CreateTemp(filepath.Join(s.dir, tmpName), "put-")
		if err != nil {
			return nil, "", err
		}
		name := path.Join(tmpName, filepath.Base(f.Name()))
		if err := flock(f, unix.LOCK_EX|unix.LOCK_NB); err == nil {
			if _, err := s.root.Lstat(name); err == nil {
				return f, name, nil
			}
		}
		if err := f.Close(); err != nil {
			return nil, "", err
		}
	}
	return nil, "", errors.New("temporary files are removed as fast as they are made")
}

// makeParents makes the directories of a key, each one durable before a blob
// is put into it.
func (s *Store) makeParents(dir string) error {
	if dir == "." {
		return nil
	}
	if info, err := s.root.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if err := s.makeParents(path.Dir(dir)); err != nil {
		return err
	}
	if err := s.root.Mkdir(dir, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return s.sync(path.Dir(dir))
}

func (s *Store) sync(dir string) error {
	d, err := s.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Open implements blob.Store.
func (s *Store) Open(ctx context.Context, key string) (io.ReadSeekCloser, int64, error) {
	if err := s.before(ctx, key); err != nil {
		return nil, 0, err
	}
	f, err := s.root.Open(key)
	if err != nil {
		return nil, 0, failed("open", key, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = blob.ErrNotFound // a directory: the start of other keys
	}
	if err != nil {
		return nil, 0, errors.Join(failed("open", key, err), f.Close())
	}
	return f, info.Size(), nil
}

// Stat implements blob.Store.
func (s *Store) Stat(ctx context.Context, key string) (int64, error) {
	if err := s.before(ctx, key); err != nil {
		return 0, err
	}
	info, err := s.root.Stat(key)
	if err == nil && !info.Mode().IsRegular() {
		err = blob.ErrNotFound
	}
	if err != nil {
		return 0, failed("stat", key, err)
	}
	return info.Size(), nil
}

// Delete implements blob.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	switch _, err := s.Stat(ctx, key); {
	case errors.Is(err, blob.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	if err := s.root.Remove(key); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return failed("delete", key, err)
	}
	if err := s.sync(path.Dir(key)); err != nil {
		return failed("delete", key, err)
	}
	return nil
}

// Check implements blob.Store.
func (s *Store) Check(ctx context.Context) error {
	const text = "gavel was here\n"
	f, name, err := s.createTemp()
	if err != nil {
		return unusable(s.dir, err)
	}
	_, err = io.WriteString(f, text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		var got []byte
		if got, err = s.root.ReadFile(name); err == nil && string(got) != text {
			err = fmt.Errorf("%d bytes written, %d other bytes read back", len(text), len(got))
		}
	}
	if err := errors.Join(err, s.root.Remove(name), ctx.Err()); err != nil {
		return unusable(s.dir, err)
	}
	return nil
}

func (s *Store) before(ctx context.Context, key string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return blob.CheckKey(key)
}

// failed wraps an error of the file system; both ways of being absent are
// ErrNotFound.
func failed(op, key string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		err = blob.ErrNotFound
	}
	return fmt.Errorf("%s blob %s: %w", op, key, err)
}

func unusable(dir string, err error) error {
	hint := "make it a directory that the user running gavel can write to, or set another data directory"
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		hint = "the file system is full: free some space or move the data directory"
	}
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err // the path is in the message already
	}
	return apperr.New(apperr.Unavailable, hint, "blob directory %s cannot be used: %v", dir, err)
}

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// ctxReader ends a long copy when its context ends.
type ctxReader struct {
	ctx context.Context //nolint:containedctx // lives for one call of Put
	r   io.Reader
}

func (c ctxReader) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}

// onlyWriter hides ReadFrom, which would bypass the buffer.
type onlyWriter struct{ io.Writer }
