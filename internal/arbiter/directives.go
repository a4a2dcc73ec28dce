package arbiter

import "github.com/gavel-oj/gavel/gavelapi"

// warn notes that a lease was ended by somebody else than its worker, for the
// next answer to that worker; a claim that waits is answered with it at once.
// A run then ends when that is heard, and not with its next heartbeat, whose
// 410 says the same: an answer that is lost costs nothing. Needs l.mu.
func (l *leadership) warn(h *held) {
	l.warnings[h.workerID] = append(l.warnings[h.workerID], h.jobID)
	l.sendAway(h.workerID)
}

// directives are what the next answer to a worker carries, once.
func (l *leadership) directives(workerID int64) gavelapi.Directives {
	l.mu.Lock()
	defer l.mu.Unlock()
	jobs := l.warnings[workerID]
	delete(l.warnings, workerID)
	return gavelapi.Directives{Cancel: jobs}
}
