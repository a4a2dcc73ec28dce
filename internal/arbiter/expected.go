package arbiter

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/auth"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/report"
)

// maxKnownTests bounds the cache below, in packages.
const maxKnownTests = 500

// testNames remembers the tests of packages by digest. A package never
// changes, so an entry is never wrong; the oldest goes when there are too many.
type testNames struct {
	mu    sync.Mutex
	names map[string][]string
	order []string
}

func newTestNames() *testNames { return &testNames{names: map[string][]string{}} }

func (t *testNames) get(digest string) ([]string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	names, ok := t.names[digest]
	return names, ok
}

func (t *testNames) put(digest string, m *problem.Manifest) []string {
	names := make([]string, len(m.Tests))
	for i := range m.Tests {
		names[i] = m.Tests[i].Name
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.names[digest]; ok {
		return names
	}
	if len(t.order) == maxKnownTests {
		delete(t.names, t.order[0])
		t.order = slices.Delete(t.order, 0, 1)
	}
	t.names[digest], t.order = names, append(t.order, digest)
	return names
}

// testsOf lists a package's tests in order, from memory as a rule.
func (a *Arbiter) testsOf(ctx context.Context, digest string) ([]string, error) {
	if names, ok := a.tests.get(digest); ok {
		return names, nil
	}
	raw, err := a.q.PackageManifest(ctx, a.db.Pool, digest)
	if err != nil {
		return nil, fmt.Errorf("read package %.24s: %w", digest, err)
	}
	m, err := readManifest(raw)
	if err != nil {
		return nil, err
	}
	return a.tests.put(digest, m), nil
}

// knownTests is the number of a package's tests, or -1 when it is not in
// memory: progress is not worth a query.
func (a *Arbiter) knownTests(digest string) int {
	names, ok := a.tests.get(digest)
	if !ok {
		return -1
	}
	return len(names)
}

// compare turns a report that contradicts its package into a fault of its
// host, and returns what it says about it. A report of anything but a judging
// has no package to compare with.
func (a *Arbiter) compare(ctx context.Context, p auth.Principal, h foundLease, r *gavelapi.Report) (string, error) {
	var why string
	if r.Fault == nil && h.submissionID != 0 {
		digest := h.packageDigest
		if digest == "" {
			var err error
			if digest, err = a.q.PackageByToken(ctx, a.db.Pool, h.token); err != nil {
				return "", unavailable(err, "look up the package of a report")
			}
		}
		tests, err := a.testsOf(ctx, digest)
		if err != nil {
			return "", unavailable(err, "compare a report with its package")
		}
		why = report.Compare(r, tests)
	} else {
		why = report.SelfContradiction(r)
	}
	if why != "" {
		a.log.Error("a worker's report is not believed", "job_id", h.jobID, "submission_id", h.submissionID, "worker", p.WorkerName, "message", why)
	}
	return why, nil
}
