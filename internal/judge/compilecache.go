package judge

import (
	"bytes"
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/gavel-oj/gavel/internal/language"
)

// DefaultCompileCacheBytes bounds the compile cache when Config does not.
const DefaultCompileCacheBytes = 512 << 20

// compiledOverheadBytes is what an entry counts beside its program and log.
const compiledOverheadBytes = 4 << 10

// compileCache keeps the outcomes of compiling contestants' sources, so that
// the same source in the same language under the same limits is compiled once.
//
// Only successes are kept. A failure may be the machine's (no memory, a
// limit), and a rejudge must be able to put that right.
//
// Programs lie in files that only the worker's user can open and that no box
// ever sees: a hit is a copy. What a copy must hash to is kept in memory, so
// nothing on the disk can say otherwise; for the same reason the cache ends
// with the engine.
type compileCache struct {
	dir   string
	quota int64
	log   *slog.Logger

	mu     sync.Mutex
	byKey  map[string]*list.Element // of *compiled
	used   list.List                // *compiled, latest first
	bytes  int64                    // of all entries, and of those being written
	serial int                      // of the latest file
	busy   map[string]chan struct{} // keys being compiled; closed when over
}

// compiled is an entry. It is read-only once it is in the cache.
type compiled struct {
	key       string
	compile   Compile
	file      string            // the program's; empty when the source itself is the program
	sum       [sha256.Size]byte // of the program
	sizeBytes int64             // what the entry counts
}

func newCompileCache(dir string, quota int64, log *slog.Logger) *compileCache {
	return &compileCache{dir: dir, quota: quota, log: log, byKey: make(map[string]*list.Element), busy: make(map[string]chan struct{})}
}

// sourceFile is one file of a source.
type sourceFile struct {
	name string
	text []byte
}

// compileKey identifies a compile by all that its outcome depends on. The data
// of a package is no part of it, because compilers never see any.
func compileKey(lang *language.Language, toolchain string, limits language.CompileLimits, files []sourceFile) (string, error) {
	data, err := json.Marshal(lang) // all of its file: nothing that matters can be forgotten
	if err != nil {
		return "", fmt.Errorf("describe language: %w", err)
	}
	bounds, err := json.Marshal(limits)
	if err != nil {
		return "", fmt.Errorf("describe compile limits: %w", err)
	}
	env, err := json.Marshal(lang.CompileEnv())
	if err != nil {
		return "", fmt.Errorf("describe compile environment: %w", err)
	}
	h := sha256.New()
	add := func(part []byte) { // with its length, so that no two lists of parts look alike
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		_, _ = h.Write(part)
	}
	for _, part := range [][]byte{data, []byte(toolchain), env, bounds} {
		add(part)
	}
	for _, f := range files {
		add([]byte(f.name))
		add(f.text)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// enter looks a key up. Without a hit, the caller compiles, calls keep if that
// went well, and then leave. Who comes while another compiles the same waits
// for it once: should that one fail, each goes on by itself.
func (c *compileCache) enter(ctx context.Context, key string) (hit *compiled, leave func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.busy[key]; other != nil && c.byKey[key] == nil {
		c.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
		}
		c.mu.Lock()
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
	}
	if at := c.byKey[key]; at != nil {
		c.used.MoveToFront(at)
		return entryAt(at), func() {}, nil
	}
	if c.busy[key] != nil {
		return nil, func() {}, nil
	}
	done := make(chan struct{})
	c.busy[key] = done
	return nil, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.busy, key)
		close(done)
	}, nil
}

var errAltered = errors.New("program is not the one that was kept")

// restore copies an entry's program to path. An entry that can not be restored
// is dropped.
func (c *compileCache) restore(entry *compiled, path string) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, c.drop(entry), removeIfThere(path))
		}
	}()
	f, err := os.Open(entry.file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if err := writeFile(path, io.TeeReader(f, h), 0o555); err != nil {
		return err
	}
	if !bytes.Equal(h.Sum(nil), entry.sum[:]) {
		return errAltered
	}
	return nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (c *compileCache) drop(entry *compiled) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.byKey[entry.key]; at != nil && at.Value == entry {
		return c.remove(at)
	}
	return nil // it was replaced, or had to make room, meanwhile
}

// remove takes an entry out; mu is held.
func (c *compileCache) remove(at *list.Element) error {
	entry := entryAt(at)
	c.used.Remove(at)
	delete(c.byKey, entry.key)
	c.bytes -= entry.sizeBytes
	return entry.removeFile()
}

func entryAt(at *list.Element) *compiled {
	entry, _ := at.Value.(*compiled) // nothing else is ever put there
	return entry
}

func (entry *compiled) removeFile() error {
	if entry.file == "" {
		return nil
	}
	return removeIfThere(entry.file)
}

// keep puts a success into the cache and makes room for it. Its error is for
// the log: the compile went well all the same.
func (c *compileCache) keep(key string, b built) error {
	entry := &compiled{key: key, compile: b.compile, sizeBytes: compiledOverheadBytes + int64(len(b.compile.Log))}
	if b.program != "" {
		fi, err := os.Stat(b.program)
		if err != nil {
			return err
		}
		entry.sizeBytes += fi.Size()
	}
	if entry.sizeBytes > c.quota {
		return nil
	}
	file, err := c.reserve(entry)
	if err != nil {
		return err
	}
	if b.program != "" {
		entry.file = file
		err = entry.copyIn(b.program)
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || c.byKey[key] != nil { // another was faster
		c.bytes -= entry.sizeBytes
		err = errors.Join(err, entry.removeFile())
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			err = errors.Join(err, c.makeRoom(c.quota)) // tasks need it more
		}
		return err
	}
	c.byKey[key] = c.used.PushFront(entry)
	return nil
}

// reserve makes room before anything is written, so that the quota holds at
// every moment, and names the file to write.
func (c *compileCache) reserve(entry *compiled) (file string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.makeRoom(entry.sizeBytes); err != nil {
		return "", err
	}
	c.bytes += entry.sizeBytes
	c.serial++
	return filepath.Join(c.dir, fmt.Sprintf("%s.%d", entry.key, c.serial)), nil
}

// makeRoom removes what was not used for longest; mu is held.
func (c *compileCache) makeRoom(bytes int64) error {
	var errs []error
	for c.bytes+bytes > c.quota && c.used.Len() > 0 {
		errs = append(errs, c.remove(c.used.Back()))
	}
	return errors.Join(errs...)
}

func (entry *compiled) copyIn(program string) error {
	f, err := os.Open(program)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if err := writeFile(entry.file, io.TeeReader(f, h), 0o400); err != nil {
		return err
	}
	h.Sum(entry.sum[:0])
	return nil
}
