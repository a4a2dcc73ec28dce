package judge

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// scratch is the engine's directory:
//
//	lock        held by the engine that uses it
//	tasks/…     one directory per task, gone with it
//	checkers/…  built checkers, by package digest
//	compiled/…  programs of the compile cache
//	headers/…   compiled headers, by language; kept
//	toolchains/…  helpers and prepared files of languages; kept
//
// Directories are readable for others: boxes run as another user.
type scratch struct {
	dir  string
	lock *os.File
}

func openScratch(dir string) (_ *scratch, err error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("scratch directory %q must be an absolute path", dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make scratch directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock scratch directory: %w", err)
	}
	defer func() {
		if err != nil {
			_ = lock.Close()
		}
	}()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, fmt.Errorf("scratch directory %s is in use by another worker; give each its own: %w", dir, err)
	}
	s := &scratch{dir: dir, lock: lock}
	if err := s.clear(); err != nil {
		return nil, fmt.Errorf("remove leftovers: %w", err)
	}
	for _, sub := range []string{s.tasks(), s.checkers(), s.compiled(), s.headers()} {
		if err := makeDir(sub); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("make scratch directory: %w", err)
		}
	}
	return s, nil
}

func (s *scratch) tasks() string    { return filepath.Join(s.dir, "tasks") }
func (s *scratch) checkers() string { return filepath.Join(s.dir, "checkers") }
func (s *scratch) compiled() string { return filepath.Join(s.dir, "compiled") }
func (s *scratch) headers() string  { return filepath.Join(s.dir, "headers") }

// toolchain is the directory of what a language needs beside its compiler. It
// outlives the engine.
func (s *scratch) toolchain(languageID string) (string, error) {
	dir := filepath.Join(s.dir, "toolchains", languageID)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return dir, errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755))
}

func (s *scratch) clear() error {
	return errors.Join(os.RemoveAll(s.tasks()), os.RemoveAll(s.checkers()), os.RemoveAll(s.compiled()))
}

func (s *scratch) close() error { return errors.Join(s.clear(), s.lock.Close()) }

// newTask makes the directory of one task. The caller removes it.
func (s *scratch) newTask() (string, error) {
	dir, err := os.MkdirTemp(s.tasks(), "")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755)
}

// makeDir makes a directory that boxes can read, whatever the umask.
func makeDir(path string) error {
	if err := os.Mkdir(path, 0o755); err != nil {
		return err
	}
	return os.Chmod(path, 0o755)
}

// writeFile writes a new file that boxes can read.
func writeFile(path string, r io.Reader, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Chmod(mode), f.Close())
}

// newOutput makes a file without a name in dir: it is gone when closed,
// whatever happens to us.
func newOutput(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "output")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// reopen opens a file without a name again, read-only and at its start.
func reopen(f *os.File) (*os.File, error) {
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
}
