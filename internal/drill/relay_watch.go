package drill

import (
	"bytes"
	"time"
)

// lineWatch is what a relay looks at in what passes, and what it does then.
type lineWatch struct {
	trap   []byte // not nil: at the first request that contains it …
	spring func() // … this is done before the request goes on

	note     time.Duration // answers that took longer are kept
	longest  time.Duration
	slow     []wait
	heard    time.Time // last request
	answered time.Time // last answer

	hungUp time.Time
}

// wait is an answer that was waited for.
type wait struct{ from, to time.Time }

// watch begins to look at what passes; answers that take longer than note are
// kept one by one.
func (r *relay) watch(note time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.t.Clock.Now()
	r.watched = &lineWatch{note: note, heard: now, answered: now}
}

// look is called with each piece before it goes on.
func (r *relay) look(l *link, piece []byte, dir direction) {
	now := r.t.Clock.Now()
	r.mu.Lock()
	w := r.watched
	if w == nil {
		r.mu.Unlock()
		return
	}
	var spring func()
	if dir == requests {
		w.heard = now
		if l.asked.IsZero() {
			l.asked = now
		}
		if w.trap != nil && bytes.Contains(piece, w.trap) {
			spring, w.trap = w.spring, nil
		}
	} else {
		w.answered = now
		w.took(l.asked, now)
		l.asked = time.Time{}
	}
	r.mu.Unlock()
	if spring != nil {
		spring()
	}
}

func (w *lineWatch) took(asked, now time.Time) {
	if asked.IsZero() {
		return
	}
	took := now.Sub(asked)
	w.longest = max(w.longest, took)
	if took > w.note {
		w.slow = append(w.slow, wait{asked, now})
	}
}

// onRequest does something once, when a request that contains a text is about
// to go on.
func (r *relay) onRequest(text string, spring func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watched.trap, r.watched.spring = []byte(text), spring
}

// waits is what the answers so far have taken, those that are still waited for
// as well.
func (r *relay) waits() (longest time.Duration, slow []wait) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := *r.watched
	w.slow = append([]wait(nil), w.slow...)
	for l := range r.links {
		w.took(l.asked, r.t.Clock.Now())
	}
	return w.longest, w.slow
}

func (r *relay) lastAnswer() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.watched.answered
}

// hangUpAfter makes the relay end all its lines when nothing has come over any
// of them for so long, as an ssh server does with its one connection when its
// questions are not answered.
func (r *relay) hangUpAfter(silence time.Duration) {
	r.t.aside(func() {
		for r.t.ctx.Err() == nil {
			r.t.wait(max(time.Millisecond, silence/500))
			now := r.t.Clock.Now()
			r.mu.Lock()
			if now.Sub(r.watched.heard) > silence {
				for l := range r.links {
					l.cut()
				}
				if r.watched.hungUp.IsZero() {
					r.watched.hungUp = now
				}
			}
			r.mu.Unlock()
		}
	})
}

// hungUpAt is when the first line was hung up on; zero: none was.
func (r *relay) hungUpAt() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.watched.hungUp
}
