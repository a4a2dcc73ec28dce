package linuxbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/internal/clock"
)

// tree is one hierarchy that boxes use, with the controllers they take from it.
type tree struct {
	version     int
	base        string // directory of our own cgroup
	controllers []controller
	dir         string   // base/<owner>, ours
	lock        *os.File // held as long as we live, see stale.go
}

// cgroups is a provider's share of the machine's cgroups.
type cgroups struct {
	layout layout
	trees  []*tree
	memory memoryControl
	clock  clock.Clock
}

func openCgroups(l layout, clk clock.Clock) (*cgroups, error) {
	c := &cgroups{layout: l, clock: clk, memory: memoryV1{}}
	if l[ctlMemory].version == 2 {
		c.memory = memoryV2{}
	}
	for ctl := range numControllers {
		c.treeAt(l[ctl]).controllers = append(c.treeAt(l[ctl]).controllers, ctl)
	}
	for _, t := range c.trees {
		if err := t.open(); err != nil {
			_ = c.close()
			return nil, err
		}
	}
	return c, nil
}

func (t *tree) open() error {
	unlock, err := lockBase(t.base)
	if err != nil {
		return cgroupFault(t.base, err)
	}
	defer unlock()
	if t.version == 2 {
		if err := enableV2(t.base, t.v2Names()); err != nil {
			return err
		}
	}
	if err := t.claim(); err != nil {
		return cgroupFault(t.base, err)
	}
	if t.version == 2 {
		return enableV2(t.dir, t.v2Names())
	}
	return nil
}

func (t *tree) close(clk clock.Clock) error {
	unlock, err := lockBase(t.base)
	if err != nil {
		return err
	}
	defer unlock()
	if t.lock != nil {
		err = errors.Join(removeGroup(clk, t.dir), t.lock.Close())
		t.lock = nil
	}
	if t.version == 2 {
		err = errors.Join(err, moveBack(t.base, t.v2Names()))
	}
	return err
}

func (c *cgroups) treeAt(p place) *tree {
	for _, t := range c.trees {
		if t.base == p.dir {
			return t
		}
	}
	t := &tree{version: p.version, base: p.dir}
	c.trees = append(c.trees, t)
	return t
}

// v2Names are the controllers to enable; accounting of CPU needs none.
func (t *tree) v2Names() (names []string) {
	for _, ctl := range t.controllers {
		if ctl != ctlCPU {
			names = append(names, ctl.String())
		}
	}
	return names
}

func (c *cgroups) close() error {
	if c == nil {
		return nil // a machine without
	}
	var errs []error
	for _, t := range c.trees {
		errs = append(errs, t.close(c.clock))
	}
	return errors.Join(errs...)
}

// slotGroup is one slot's directories: base/<owner>/slot<k> in each tree.
type slotGroup struct {
	c    *cgroups
	name string
	uid  int // the host id of the slot's root
	runs int
	old  []string // directories of earlier runs, not yet removed
	cur  *runGroup
	next *runGroup // made ahead, see stock
	// stocked says that stock was called in this run.
	stocked bool
}

func (c *cgroups) newSlot(name string, uid int) (*slotGroup, error) {
	if c == nil {
		return nil, nil
	}
	s := &slotGroup{c: c, name: name, uid: uid}
	for _, t := range c.trees {
		dir := filepath.Join(t.dir, name)
		err := os.Mkdir(dir, 0o755)
		if err == nil && t.version == 2 {
			// The init starts programs in leaves of this cgroup; for that it
			// needs the right to move processes within it, and no other.
			err = os.Chown(filepath.Join(dir, "cgroup.procs"), uid, uid)
		}
		if err != nil {
			s.close()
			return nil, cgroupFault(t.base, err)
		}
	}
	return s, nil
}

// v1Tasks opens the slot's `tasks` files. The right to write to them comes
// from the opener, so the unprivileged init can use what we opened.
func (s *slotGroup) v1Tasks() ([]*os.File, error) {
	return s.openTasks(func(t *tree) string { return filepath.Join(t.dir, s.name) })
}

func (s *slotGroup) openTasks(dir func(*tree) string) (files []*os.File, err error) {
	if s == nil {
		return nil, nil
	}
	for _, t := range s.c.trees {
		if t.version != 1 {
			continue
		}
		f, err := os.OpenFile(filepath.Join(dir(t), "tasks"), os.O_WRONLY, 0)
		if err != nil {
			closeAll(files)
			return nil, cgroupFault(t.base, err)
		}
		files = append(files, f)
	}
	return files, nil
}

// v2Dir is the slot's directory on the v2 tree, or "".
func (s *slotGroup) v2Dir() string {
	if s == nil {
		return ""
	}
	for _, t := range s.c.trees {
		if t.version == 2 {
			return filepath.Join(t.dir, s.name)
		}
	}
	return ""
}

// settle is called when the init stands, inside the slot's v2 cgroup, with its
// cgroup namespace made there: it moves the init to a leaf, so that the slot's
// cgroup can have limited children.
func (s *slotGroup) settle(pid int) error {
	if s == nil {
		return nil
	}
	for _, t := range s.c.trees {
		if t.version != 2 {
			continue
		}
		dir := filepath.Join(t.dir, s.name)
		leaf := filepath.Join(dir, "init")
		if err := os.Mkdir(leaf, 0o755); err != nil {
			return cgroupFault(dir, err)
		}
		if err := writeFile(filepath.Join(leaf, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return cgroupFault(dir, fmt.Errorf("move the init to a leaf: %w", err))
		}
		if err := enableV2(dir, t.v2Names()); err != nil {
			return err
		}
	}
	return nil
}

// close removes the slot's directories; its processes are dead by then.
func (s *slotGroup) close() error {
	if s == nil {
		return nil
	}
	s.retire(s.cur)
	s.retire(s.next)
	var errs []error
	for _, t := range s.c.trees {
		errs = append(errs, removeGroup(s.c.clock, filepath.Join(t.dir, s.name)))
	}
	return errors.Join(errs...)
}

// removeGroup removes a cgroup with all below it. The kernel answers EBUSY for
// some milliseconds after the last process has gone.
func removeGroup(clk clock.Clock, dir string) error {
	const tries, pause = 400, 5 * time.Millisecond
	var err error
	for range tries {
		if err = removeGroupOnce(dir); !errors.Is(err, unix.EBUSY) {
			return err
		}
		<-clk.After(pause)
	}
	return err
}

func removeGroupOnce(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeGroupOnce(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove cgroup %s: %w", dir, err)
	}
	return nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
