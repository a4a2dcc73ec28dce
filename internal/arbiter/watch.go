package arbiter

import "sync"

// subject is what a reader can wait for: a submission, a run, or (without an
// id: they are few) any preparation.
type subject struct {
	run, preparation bool
	id               int64
}

func submission(id int64) subject { return subject{id: id} }

var preparations = subject{preparation: true}

// subjectOf is that of a job: whose state it changes.
func subjectOf(kind string, submissionID, workID int64) subject {
	switch kind {
	case kindRun:
		return subject{run: true, id: workID}
	case kindPrepare:
		return preparations
	}
	return submission(submissionID)
}

// watchers tells readers that wait for a subject when it has changed. It
// holds no database connection and no goroutine per reader.
type watchers struct {
	mu   sync.Mutex
	subs map[subject]map[chan struct{}]struct{}
}

func newWatchers() *watchers { return &watchers{subs: map[subject]map[chan struct{}]struct{}{}} }

// on returns a channel that gets a value after changes of a subject. stop
// must be called.
func (w *watchers) on(of subject) (changed <-chan struct{}, stop func()) {
	ch := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.subs[of] == nil {
		w.subs[of] = map[chan struct{}]struct{}{}
	}
	w.subs[of][ch] = struct{}{}
	return ch, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.subs[of], ch)
		if len(w.subs[of]) == 0 {
			delete(w.subs, of)
		}
	}
}

// changed wakes the readers of a subject.
func (w *watchers) changed(of subject) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ch := range w.subs[of] {
		select {
		case ch <- struct{}{}:
		default: // it will look anyway
		}
	}
}
