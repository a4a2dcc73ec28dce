package linuxbox

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/internal/clock"
	"github.com/gavel-oj/gavel/internal/sandbox"
)

// Config is how boxes of one worker are made. The zero value works.
type Config struct {
	// Log gets the rare events: stale cgroups removed, slots replaced. Nil
	// drops them.
	Log *slog.Logger
	// Clock is the machine's unless a test says otherwise.
	Clock clock.Clock
	// ReadOnly lists more host directories and files to show in every box
	// under their own name, for languages that live outside /usr.
	ReadOnly []string
	// TempDir is where large copied-out files are kept, without a name; the
	// system's directory for temporary files when empty.
	TempDir string
	// MaxRuns is after how many runs a slot is replaced; 1000 when 0.
	MaxRuns int

	// Degraded opens boxes also where cgroups, or the rights for a second user
	// id, are missing. What is weaker then is in Info().Weaker. Without it such
	// a machine is refused.
	Degraded bool

	weak    []string // protections to leave out, see setup
	noProof bool     // skip the proof at Open, for tests that prove it otherwise
}

const defaultMaxRuns = 1000

// Provider makes boxes on this machine. Its methods may be called from any
// goroutine.
type Provider struct {
	cfg     Config
	log     *slog.Logger
	clock   clock.Clock
	cgroups *cgroups
	starter *starter
	null    int // /dev/null, for reading
	idBase  int
	setup   setup
	serial  atomic.Int64 // of slots, for names that are never used twice

	mu     sync.Mutex
	info   sandbox.Info
	boxes  map[*box]bool
	taken  map[int]bool // slot indexes in use
	closed bool
}

var (
	_ sandbox.Provider = (*Provider)(nil)
	_ sandbox.Pinner   = (*Provider)(nil)
)

// Open finds out what the machine has, removes what a crashed worker left, and
// proves with real runs that limits are enforced. Its error is a
// *sandbox.Fault that says what is missing and what to do about it.
func Open(cfg Config) (*Provider, error) {
	if !initCalled {
		return nil, errors.New("linuxbox.Init was not called: it must come first in main and in TestMain")
	}
	p := &Provider{
		cfg: cfg, log: cfg.Log, clock: cfg.Clock,
		setup: setup{ReadOnly: cfg.ReadOnly, Weak: cfg.weak},
		boxes: map[*box]bool{}, taken: map[int]bool{},
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	if p.clock == nil {
		p.clock = clock.System{}
	}
	if p.cfg.MaxRuns == 0 {
		p.cfg.MaxRuns = defaultMaxRuns
	}
	if err := p.open(); err != nil {
		return nil, err
	}
	if !cfg.noProof {
		if err := p.prove(); err != nil {
			_ = p.Close()
			return nil, err
		}
	}
	return p, nil
}

func (p *Provider) open() error {
	p.info = sandbox.Info{Kernel: kernelRelease()}
	if err := p.chooseIDs(); err != nil {
		return err
	}
	if err := p.chooseMeters(); err != nil {
		return err
	}
	if err := enoughDescriptors(); err != nil {
		return err
	}
	var err error
	if p.null, err = unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		_ = p.cgroups.close()
		return &sandbox.Fault{Op: "start", Err: err}
	}
	p.starter = newStarter()
	return nil
}

// chooseIDs finds out which user ids boxes can have.
func (p *Provider) chooseIDs() (err error) {
	if os.Geteuid() != 0 {
		if !p.cfg.Degraded {
			return &sandbox.Fault{
				Op: "privilege", Err: errNoRoot,
				Hint: "run the worker as root (sudo, or a system service): it drops all rights for what it judges; weaker boxes work without, with --allow-degraded",
			}
		}
		p.setup.OneID = true
		p.noteWeaker(oneIDWeaker())
		return nil
	}
	if p.idBase, err = readHostIDBase(); err != nil {
		return &sandbox.Fault{Op: "namespaces", Hint: "give the container more ids (65536 for boxes)", Err: err}
	}
	return nil
}

// chooseMeters opens the machine's cgroups.
func (p *Provider) chooseMeters() error {
	l, err := detectLayout()
	if err == nil {
		for _, base := range l.bases() {
			removeStale(p.clock, base, p.log)
		}
		p.cgroups, err = openCgroups(l, p.clock)
	}
	switch {
	case err == nil:
		p.info.MemoryMeter = p.cgroups.memory.meter()
		p.info.CPUMeter = map[int]string{1: "cgroup1", 2: "cgroup2"}[l[ctlCPU].version]
		p.info.Layout = l.name()
	case !p.cfg.Degraded:
		if f, ok := errors.AsType[*sandbox.Fault](err); ok && f.Hint != "" {
			f.Hint += "; weaker boxes work without, with --allow-degraded"
		}
		return err
	default:
		p.setup.Polled = true
		p.info.MemoryMeter, p.info.CPUMeter, p.info.Layout = polledMeter, polledMeter, "none"
		p.noteWeaker(polledWeaker(err))
	}
	return nil
}

func (l layout) bases() (dirs []string) {
	for _, place := range l {
		if !slices.Contains(dirs, place.dir) {
			dirs = append(dirs, place.dir)
		}
	}
	return dirs
}

func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// Info implements sandbox.Provider.
func (p *Provider) Info() sandbox.Info {
	p.mu.Lock()
	defer p.mu.Unlock()
	info := p.info
	info.Weaker = slices.Clone(info.Weaker)
	return info
}

func (p *Provider) noteWeaker(words []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range words {
		if !slices.Contains(p.info.Weaker, w) {
			p.info.Weaker = append(p.info.Weaker, w)
		}
	}
}

// Open implements sandbox.Provider: the box's slot is started here, so that
// the first run finds it warm.
func (p *Provider) Open(ctx context.Context) (sandbox.Box, error) { return p.OpenOn(ctx, -1) }

// OpenOn implements sandbox.Pinner.
func (p *Provider) OpenOn(ctx context.Context, cpu int) (sandbox.Box, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	b := &box{p: p, cpu: cpu}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errClosed
	}
	for b.index = 0; p.taken[b.index]; b.index++ {
	}
	p.taken[b.index], p.boxes[b] = true, true
	p.mu.Unlock()

	if _, err := b.ensure(ctx); err != nil {
		_ = b.Close()
		return nil, err
	}
	return b, nil
}

func (p *Provider) forget(b *box) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.boxes, b)
	delete(p.taken, b.index)
}

// Close implements sandbox.Provider. It closes boxes that are still open.
func (p *Provider) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	open := make([]*box, 0, len(p.boxes))
	for b := range p.boxes {
		open = append(open, b)
	}
	p.mu.Unlock()

	var errs []error
	for _, b := range open {
		errs = append(errs, b.Close())
	}
	p.starter.close()
	errs = append(errs, p.cgroups.close(), unix.Close(p.null))
	return errors.Join(errs...)
}
