package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/internal/apperr"
)

// State is the agent's directory: one process holds it at a time, and it
// remembers which sessions the arbiter may know this worker by.
type State struct {
	dir  string
	lock *os.File

	session string
	// earlier are the sessions that this process may succeed, likeliest
	// first. There is more than one when a process ended before it knew
	// whether the arbiter had accepted it.
	earlier []string
}

// maxEarlier bounds what a process that dies again and again leaves behind.
const maxEarlier = 8

type sessionFile struct {
	Sessions []string `json:"sessions"` // newest first
}

// OpenState takes the directory for this process, until Close. A program that
// keeps other things of its own below the directory does this before it touches
// them.
func OpenState(dir string) (*State, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, apperr.Wrap(err, apperr.Invalid, "give a directory that this user may write to (--state-dir)", "the state directory cannot be made")
	}
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, apperr.Wrap(err, apperr.Invalid, "give a directory that this user may write to (--state-dir)", "the state directory is not writable")
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder := "another process"
		if b, readErr := io.ReadAll(io.LimitReader(f, 32)); readErr == nil && strings.TrimSpace(string(b)) != "" {
			holder = "process " + strings.TrimSpace(string(b))
		}
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, apperr.New(apperr.Conflict, "stop it, or give this worker a --state-dir of its own", "a gavel-worker (%s) already runs with state directory %s", holder, dir)
		}
		return nil, fmt.Errorf("lock state directory: %w", err)
	}
	// To name the holder is a courtesy to people; the lock holds without it.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return &State{dir: dir, lock: f, session: uuid.NewString()}, nil
}

// begin remembers this session before the arbiter can hear of it. An error
// means that a successor may have to wait for this session to expire.
func (s *State) begin() error {
	var old sessionFile
	b, err := os.ReadFile(s.path())
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("read sessions: %w", err)
	default:
		if err := json.Unmarshal(b, &old); err != nil {
			return errors.Join(fmt.Errorf("read sessions: %w", err), s.save(s.session))
		}
	}
	for _, id := range old.Sessions {
		if _, err := uuid.Parse(id); err == nil && len(s.earlier) < maxEarlier {
			s.earlier = append(s.earlier, id)
		}
	}
	return s.save(append([]string{s.session}, s.earlier...)...)
}

// accepted forgets the predecessors: the arbiter knows this session now.
func (s *State) accepted() error {
	s.earlier = nil
	return s.save(s.session)
}

// previous is the session to name as this one's predecessor.
func (s *State) previous() string {
	if len(s.earlier) == 0 {
		return ""
	}
	return s.earlier[0]
}

// refused goes on to the next possible predecessor, round and round.
func (s *State) refused() {
	if len(s.earlier) > 1 {
		s.earlier = append(s.earlier[1:], s.earlier[0])
	}
}

func (s *State) path() string { return filepath.Join(s.dir, "session.json") }

func (s *State) save(sessions ...string) error {
	b, err := json.Marshal(sessionFile{Sessions: sessions})
	if err != nil {
		return err
	}
	if err := writeFile(s.path(), append(b, '\n')); err != nil {
		return fmt.Errorf("remember session: %w", err)
	}
	return nil
}

// Close lets another process have the directory.
func (s *State) Close() error { return s.lock.Close() }

// Save puts a file of the caller's into the directory, whole and durable.
func (s *State) Save(name string, data []byte) error {
	if err := writeFile(filepath.Join(s.dir, name), data); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// tmpSuffix marks files that are being written.
const tmpSuffix = ".tmp"

// writeFile puts data at path so that, whatever happens, the file is there as
// a whole or not at all, and durable when writeFile returns nil.
func writeFile(path string, data []byte) (err error) {
	tmp := path + tmpSuffix
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		// A half file must not eat the room that is missing.
		return errors.Join(err, os.Remove(tmp))
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
