package drill

import (
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// A stretch is the time between two moments of this process's clock.
type stretch struct{ from, to time.Time }

func (s stretch) length() time.Duration { return s.to.Sub(s.from) }

// standstills are the times in which the database could not commit anything at
// all, because of its disk or because the machine did not run. They are found by
// committing something over and over, on a connection of its own and without
// touching a row or a lock of gavel's: what holds that up is nobody's lock.
type standstills struct {
	all  []stretch // to be read when stopped
	stop func()    // once or several times
}

// A commit that takes longer than this has met one.
const standstillFrom = 10 * time.Millisecond

func (s *stand) watchStandstills() *standstills {
	conn, err := pgx.Connect(s.ctx, s.url)
	s.must(err, "connect")
	done, ended := make(chan struct{}), make(chan struct{})
	w := &standstills{stop: sync.OnceFunc(func() {
		close(done)
		<-ended
		_ = conn.Close(s.ctx) // nothing depends on it
	})}
	s.cleanup(w.stop)
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-s.Clock.After(2 * time.Millisecond):
			}
			from := s.Clock.Now()
			_, err := conn.Exec(s.ctx, "select pg_logical_emit_message(true, 'gavel-drill', '')")
			if err != nil {
				s.Errorf("watch the disk: %v", err)
				return
			}
			if x := (stretch{from, s.Clock.Now()}); x.length() > standstillFrom {
				w.all = append(w.all, x)
			}
		}
	}()
	return w
}

// waits are how long things took without the standstills, the shortest first.
func (w *standstills) waits(of []stretch) (all []time.Duration) {
	for _, x := range of {
		all = append(all, w.without(x))
	}
	slices.Sort(all)
	return all
}

func (w *standstills) without(x stretch) time.Duration {
	d := x.length()
	for _, s := range w.all {
		if from, to := latest(s.from, x.from), earliest(s.to, x.to); from.Before(to) {
			d -= to.Sub(from)
		}
	}
	return d
}

func (w *standstills) longest() (d time.Duration) {
	for _, s := range w.all {
		d = max(d, s.length())
	}
	return d
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
