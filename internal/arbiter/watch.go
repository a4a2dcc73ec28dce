package arbiter

import "sync"

// watchers tells readers that wait for a submission when it has changed. It
// holds no database connection and no goroutine per reader.
type watchers struct {
	mu   sync.Mutex
	subs map[int64]map[chan struct{}]struct{}
}

func newWatchers() *watchers { return &watchers{subs: map[int64]map[chan struct{}]struct{}{}} }

// on returns a channel that gets a value after changes of a submission. stop
// must be called.
func (w *watchers) on(submissionID int64) (changed <-chan struct{}, stop func()) {
	ch := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.subs[submissionID] == nil {
		w.subs[submissionID] = map[chan struct{}]struct{}{}
	}
	w.subs[submissionID][ch] = struct{}{}
	return ch, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.subs[submissionID], ch)
		if len(w.subs[submissionID]) == 0 {
			delete(w.subs, submissionID)
		}
	}
}

// changed wakes the readers of a submission.
func (w *watchers) changed(submissionID int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ch := range w.subs[submissionID] {
		select {
		case ch <- struct{}{}:
		default: // it will look anyway
		}
	}
}
