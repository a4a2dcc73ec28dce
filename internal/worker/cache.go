package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gavel-oj/gavel/internal/clock"
	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/problem"
)

// cache keeps unpacked packages by digest.
//
//	<dir>/<hex>        a package, complete and read-only
//	<dir>/<hex>.<n>    the same digest again, while a damaged copy is in use
//	<dir>/.<hex>.part  a download
//	<dir>/.…           work in progress; removed at start
//
// A package is hashed in full at its first use after start, and looked at
// (every file there, its size right) at each further use. A damaged one is
// fetched again.
type cache struct {
	dir   string
	quota int64
	limit time.Duration // of getting one package
	fetch fetchFunc
	clk   clock.Clock
	log   *slog.Logger

	base context.Context // downloads live in it, not in the lease that started them
	wg   sync.WaitGroup

	mu      sync.Mutex
	held    map[string]*cached
	flights map[string]*flight
	used    int64
	seq     int
}

// cached is one package on disk. Its fields belong to cache.mu, but for ready.
type cached struct {
	digest  string
	dir     string
	bytes   int64
	refs    int
	lastUse time.Time
	dropped bool // damaged or evicted: removed with its last user

	ready sync.Mutex // one verification at a time; guards pkg
	pkg   *problem.Package
}

// errDamaged says that a cached package is not what its name says.
var errDamaged = errors.New("cached package is damaged")

func openCache(base context.Context, dir string, quota int64, limit time.Duration, fetch fetchFunc, clk clock.Clock, log *slog.Logger) (*cache, error) {
	c := &cache{
		dir: dir, quota: quota, limit: limit, fetch: fetch, clk: clk, log: log, base: base,
		held: map[string]*cached{}, flights: map[string]*flight{},
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make package cache: %w", err)
	}
	if err := c.load(); err != nil {
		return nil, fmt.Errorf("open package cache: %w", err)
	}
	return c, nil
}

// load takes over what a former process left: complete packages stay, work in
// progress goes. Nothing is believed yet; see use.
func (c *cache) load() error {
	if _, err := problem.RemoveLeftovers(c.dir); err != nil {
		return err
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	for _, d := range entries {
		path := filepath.Join(c.dir, d.Name())
		hex, n, _ := strings.Cut(d.Name(), ".")
		digest := "sha256:" + hex
		_, known := problem.DigestHex(digest)
		switch {
		case strings.HasPrefix(d.Name(), "."):
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		case !d.IsDir() || !known:
			c.log.Warn("package cache holds something foreign, left alone", "name", d.Name())
		case c.held[digest] != nil:
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		default:
			if seq, err := strconv.Atoi(n); err == nil {
				c.seq = max(c.seq, seq)
			}
			e := &cached{digest: digest, dir: path, bytes: treeBytes(path)}
			if info, err := d.Info(); err == nil {
				e.lastUse = info.ModTime()
			}
			c.held[digest] = e
			c.used += e.bytes
		}
	}
	c.mu.Lock()
	victims := c.evict(c.quota)
	c.mu.Unlock()
	c.removeAll(victims)
	return nil
}

// get returns the package, fetched if need be, and what to call when it is
// used no more. Slots that want the same package share one download. Errors
// are *judge.Fault, or ctx's cause.
func (c *cache) get(ctx context.Context, digest string) (*problem.Package, func(), error) {
	if _, ok := problem.DigestHex(digest); !ok {
		return nil, nil, &judge.Fault{Blame: judge.BlamePackage, Message: "the lease names a package by something that is no digest"}
	}
	// A copy that is damaged as often as it is fetched is this disk's fault.
	for range 3 {
		e, f := c.look(digest)
		if e == nil {
			if err := f.wait(ctx, c); err != nil {
				return nil, nil, err
			}
			continue
		}
		pkg, err := e.use(ctx)
		if err == nil {
			return pkg, sync.OnceFunc(func() { c.release(e) }), nil
		}
		damaged := errors.Is(err, errDamaged)
		if damaged {
			c.log.Warn("cached package is damaged and will be fetched again", "package", digest, "error", err)
			c.drop(e)
		}
		c.release(e)
		if !damaged {
			return nil, nil, err
		}
	}
	return nil, nil, &judge.Fault{Blame: judge.BlameHost, Message: "package " + digest + " is damaged on disk each time it is fetched; check the disk of the state directory"}
}

// look takes a reference to the package, or joins its download.
func (c *cache) look(digest string) (*cached, *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.held[digest]; e != nil {
		e.refs++
		e.lastUse = c.clk.Now()
		return e, nil
	}
	f := c.flights[digest]
	if f == nil {
		f = c.start(digest)
	}
	f.waiting++
	return nil, f
}

// use verifies the package as far as it is needed now.
func (e *cached) use(ctx context.Context) (*problem.Package, error) {
	e.ready.Lock()
	defer e.ready.Unlock()
	if e.pkg != nil {
		if err := e.pkg.Check(); err != nil {
			return nil, fmt.Errorf("%w: %w", errDamaged, err)
		}
		return e.pkg, nil
	}
	pkg, err := problem.Open(e.dir, e.digest)
	if err == nil {
		err = pkg.Verify(ctx)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	e.pkg = pkg
	return pkg, nil
}

// drop makes sure that nobody new gets this copy.
func (c *cache) drop(e *cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !e.dropped {
		e.dropped = true
		delete(c.held, e.digest)
	}
}

func (c *cache) release(e *cached) {
	c.mu.Lock()
	e.refs--
	e.lastUse = c.clk.Now()
	var victims []*cached
	if e.refs == 0 {
		if e.dropped {
			c.used -= e.bytes
			victims = append(victims, e)
		}
		victims = append(victims, c.evict(c.quota)...)
	}
	dropped, lastUse := e.dropped, e.lastUse
	c.mu.Unlock()
	if !dropped {
		// The order of use survives a restart.
		_ = os.Chtimes(e.dir, time.Time{}, lastUse)
	}
	c.removeAll(victims)
}

// add takes over a freshly unpacked, hence verified, package.
func (c *cache) add(pkg *problem.Package) {
	bytes := treeBytes(pkg.Dir)
	c.mu.Lock()
	e := &cached{digest: pkg.Digest, dir: pkg.Dir, bytes: bytes, pkg: pkg, lastUse: c.clk.Now()}
	c.held[e.digest] = e
	c.used += bytes
	e.refs++ // or it could be its own victim
	victims := c.evict(c.quota)
	e.refs--
	c.mu.Unlock()
	c.removeAll(victims)
}

// evict forgets the least recently used packages that nobody uses until at
// most limit bytes are held. The caller holds mu, and removes what is returned.
func (c *cache) evict(limit int64) []*cached {
	var victims []*cached
	for c.used > limit {
		var oldest *cached
		for _, e := range c.held {
			if e.refs == 0 && (oldest == nil || e.lastUse.Before(oldest.lastUse)) {
				oldest = e
			}
		}
		if oldest == nil {
			break
		}
		oldest.dropped = true
		delete(c.held, oldest.digest)
		c.used -= oldest.bytes
		victims = append(victims, oldest)
	}
	return victims
}

// shrink gives back room when the disk is short of it, and says how much.
func (c *cache) shrink(bytes int64) int64 {
	c.mu.Lock()
	before := c.used
	victims := c.evict(max(0, c.used-bytes))
	freed := before - c.used
	c.mu.Unlock()
	c.removeAll(victims)
	return freed
}

func (c *cache) removeAll(victims []*cached) {
	for _, e := range victims {
		// Renamed first: a removal that is cut short must not leave a package
		// that looks whole.
		trash := filepath.Join(c.dir, "."+filepath.Base(e.dir)+".old")
		if err := os.Rename(e.dir, trash); err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.log.Warn("old package cannot be moved aside", "package", e.digest, "error", err)
			trash = e.dir
		}
		if err := os.RemoveAll(trash); err != nil {
			c.log.Warn("old package cannot be removed", "package", e.digest, "error", err)
		}
	}
}

// digests lists the packages held, most recently used first, at most limit.
func (c *cache) digests(limit int) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*cached, 0, len(c.held))
	for _, e := range c.held {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *cached) int { return b.lastUse.Compare(a.lastUse) })
	var out []string
	for _, e := range all[:min(limit, len(all))] {
		out = append(out, e.digest)
	}
	return out
}

// place is a directory name for digest that no copy has, not even a damaged
// one still in use. The caller holds mu.
func (c *cache) place(hex string) string {
	dir := filepath.Join(c.dir, hex)
	for {
		if _, err := os.Lstat(dir); err != nil {
			return dir
		}
		c.seq++
		dir = filepath.Join(c.dir, hex+"."+strconv.Itoa(c.seq))
	}
}

// treeBytes is what a directory takes, roughly: the sizes of its files.
func treeBytes(dir string) int64 {
	var n int64
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // an unreadable file counts nothing; the verification will tell
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
		return nil
	})
	return n
}
