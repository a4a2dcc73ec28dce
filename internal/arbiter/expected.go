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

// maxKnownPackages bounds the cache below.
const maxKnownPackages = 500

// knownPackage is what handing in and reporting look at.
type knownPackage struct {
	tests []string         // in order
	rules problem.Manifest // without its lists of tests, files and submissions, which may be long
}

// knownPackages remembers packages by digest. A package never changes, so an
// entry is never wrong; the oldest goes when there are too many.
type knownPackages struct {
	mu    sync.Mutex
	known map[string]*knownPackage
	order []string
}

func newKnownPackages() *knownPackages { return &knownPackages{known: map[string]*knownPackage{}} }

func (t *knownPackages) get(digest string) *knownPackage {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[digest]
}

func (t *knownPackages) put(digest string, m *problem.Manifest) *knownPackage {
	k := &knownPackage{tests: make([]string, len(m.Tests)), rules: *m}
	for i := range m.Tests {
		k.tests[i] = m.Tests[i].Name
	}
	k.rules.Tests, k.rules.Files, k.rules.Submissions = nil, nil, nil
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.known[digest]; ok {
		return k
	}
	if len(t.order) == maxKnownPackages {
		delete(t.known, t.order[0])
		t.order = slices.Delete(t.order, 0, 1)
	}
	t.known[digest], t.order = k, append(t.order, digest)
	return k
}

// knownPackage looks a stored package up, in memory as a rule.
func (a *Arbiter) knownPackage(ctx context.Context, digest string) (*knownPackage, error) {
	if k := a.packages.get(digest); k != nil {
		return k, nil
	}
	raw, err := a.q.PackageManifest(ctx, a.db.Pool, digest)
	if err != nil {
		return nil, fmt.Errorf("read package %.24s: %w", digest, err)
	}
	m, err := readManifest(raw)
	if err != nil {
		return nil, err
	}
	return a.packages.put(digest, m), nil
}

// knownTests is the number of a package's tests, or -1 when it is not in
// memory: progress is not worth a query.
func (a *Arbiter) knownTests(digest string) int {
	k := a.packages.get(digest)
	if k == nil {
		return -1
	}
	return len(k.tests)
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
		known, err := a.knownPackage(ctx, digest)
		if err != nil {
			return "", unavailable(err, "compare a report with its package")
		}
		why = report.Compare(r, known.tests)
	} else {
		why = report.SelfContradiction(r)
	}
	if why != "" {
		a.log.Error("a worker's report is not believed", "job_id", h.jobID, "submission_id", h.submissionID, "worker", p.WorkerName, "message", why)
	}
	return why, nil
}
