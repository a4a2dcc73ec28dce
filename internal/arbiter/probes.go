package arbiter

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/auth"
	"github.com/gavel-oj/gavel/internal/dispatch"
	"github.com/gavel-oj/gavel/internal/health"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/probe"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

const (
	// probeTick is how often it is looked whether a probe is due.
	probeTick = 250 * time.Millisecond
	// idleFor is how long a claim waits before its worker counts as one that
	// would have nothing to do: dispatch has had its chance by then.
	idleFor = time.Second
	// roomFor is the same for a free slot of a worker that works in others.
	roomFor = 5 * time.Second
	// probesKept is how long the results of probes can be looked at.
	probesKept = 30 * 24 * time.Hour
	// probeForgotten is when an open probe of which neither queue nor leases
	// know is given up: its row was lost, or changed by hand.
	probeForgotten = time.Minute
)

// probeLoop makes the probes that are due.
func (l *leadership) probeLoop(ctx context.Context) error {
	if !l.a.cfg.Health.On() {
		return nil
	}
	ticker := l.a.clock.NewTicker(probeTick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		l.dropOrphans(ctx)
		for _, d := range l.dueProbes() {
			if err := l.offerProbe(ctx, d.worker, d.order); err != nil && ctx.Err() == nil {
				l.a.log.Warn("making a probe failed", "worker_id", d.worker, "error", err)
				break // the next tick tries again
			}
		}
	}
}

type dueProbe struct {
	worker int64
	order  health.Order
}

// dueProbes asks health what is due, and lets what is not urgent wait until
// its worker would have nothing to do.
func (l *leadership) dueProbes() (due []dueProbe) {
	now := l.a.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	idle := map[int64]bool{}
	for _, w := range l.waiters {
		waited := now.Sub(w.since)
		if w.inFlight == 0 && (waited >= idleFor && l.board.Held(w.workerID) == 0 || waited >= roomFor) {
			idle[w.workerID] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(l.presence)) {
		if !l.isOnline(id, now) || l.awayByPlan(id, now) {
			continue
		}
		gate := l.health.Away(id)
		if s := l.health.State(id); s != nil && s.Open != nil && now.Sub(s.Open.Since) > probeForgotten &&
			l.byJob[s.Open.JobID] == nil && !l.board.HasJob(s.Open.JobID) {
			l.health.ProbeDropped(id, s.Open.JobID)
		}
		order, ok := l.health.Due(id, now)
		if l.health.Away(id) != gate { // its first probe took too long to be waited for
			l.enlist(id, now)
			l.poke()
		}
		if ok && (order.Urgent || idle[id]) {
			due = append(due, dueProbe{id, order})
		}
	}
	return due
}

// awayByPlan says whether an operator or planned hours keep a worker from
// working: it is not probed then. Needs l.mu.
func (l *leadership) awayByPlan(id int64, now time.Time) bool {
	if s := l.settings[id]; s != nil && awayReason(s.Away, s.AwayNote, s.AwayUntil) != "" {
		return true
	}
	return l.sleepReason(id, now) != ""
}

// offerProbe stores a probe as a job that only its worker can get.
func (l *leadership) offerProbe(ctx context.Context, id int64, order health.Order) error {
	p, known := probe.Make(order.Language, order.Program, rand.Text())
	lang, listed := l.a.cfg.Languages.Get(order.Language)
	if !known || !listed {
		// No answer is known in this language: nothing speaks against it.
		l.mu.Lock()
		defer l.mu.Unlock()
		l.health.Opened(id, order, -1, l.a.clock.Now())
		l.noteHealth(l.health.ProbeEnded(id, -1, health.Outcome{Passed: true}, l.a.clock.Now()))
		l.enlist(id, l.a.clock.Now())
		return nil
	}
	if err := l.a.storeProbePackage(ctx, p.Package); err != nil {
		return err
	}
	limits, err := language.Effective(p.Package.Manifest.Limits, lang)
	if err != nil {
		return fmt.Errorf("limits of a probe in %s: %w", order.Language, err)
	}
	wire := wireLimits(limits)
	job, err := l.a.q.InsertProbe(ctx, l.a.db.Pool, &storedb.InsertProbeParams{
		WorkerID: id, Language: order.Language, Program: order.Program, Purpose: string(order.Purpose), Source: p.Source,
		PackageDigest: &p.Package.Digest, Limits: mustJSON(wire), MemoryBytes: wire.MemoryBytes, CPUUs: wire.CPUUS,
		Shard: shard, Term: l.term,
	})
	if store.IsNoRows(err) {
		return nil // another one leads
	}
	if err != nil {
		return fmt.Errorf("store a probe: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.health.Opened(id, order, job.ID, l.a.clock.Now())
	l.enqueue(jobOf(job))
	l.poke()
	return nil
}

// storeProbePackage makes sure that workers can fetch a package of probes.
func (a *Arbiter) storeProbePackage(ctx context.Context, p *probe.Package) error {
	if _, done := a.probePackages.Load(p.Digest); done {
		return nil
	}
	key, err := packageKey(p.Digest)
	if err != nil {
		return err
	}
	size, err := a.storeArchive(ctx, key, p.Manifest, p.Files)
	if err != nil {
		return fmt.Errorf("store the package of a probe: %w", err)
	}
	if _, err := a.q.InsertPackage(ctx, a.db.Pool, &storedb.InsertPackageParams{
		Digest: p.Digest, Manifest: problem.Encode(p.Manifest), SizeBytes: size,
	}); err != nil {
		return fmt.Errorf("store the package of a probe: %w", err)
	}
	a.probePackages.Store(p.Digest, struct{}{})
	return nil
}

// recordProbe ends a probe with its report and compares it with what is known.
// False means that its lease was not live.
func (a *Arbiter) recordProbe(ctx context.Context, l *leadership, p auth.Principal, h foundLease, report *gavelapi.Report) (bool, error) {
	asked, err := a.q.ProbeOfJob(ctx, a.db.Pool, &storedb.ProbeOfJobParams{JobID: h.jobID, LeaseToken: h.token})
	if store.IsNoRows(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var limits gavelapi.Limits
	if err := json.Unmarshal(asked.Limits, &limits); err != nil {
		return false, fmt.Errorf("stored limits of probe %d: %w", asked.ID, err)
	}
	why := probe.Check(asked.Program, report, limits, time.Duration(asked.TookUs)*time.Microsecond)
	row := storedb.RecordProbeParams{
		JobID: h.jobID, LeaseToken: h.token, WorkerID: p.WorkerID, AttemptOutcome: "completed", Outcome: "passed",
		Verdict: report.Verdict, Message: why, CPUUs: report.CPUUS, WallUs: report.WallUS, TookUs: asked.TookUs,
	}
	outcome := health.Outcome{Passed: why == "", Message: why}
	if why != "" {
		row.Outcome = "failed"
	}
	if report.Fault != nil {
		row.AttemptOutcome, row.Blame = "failed", report.Fault.Blame
		if report.Fault.Blame == gavelapi.BlameHost {
			outcome.Blame = health.BlameHost
		}
	} else if asked.Program == probe.AC {
		outcome.CPU = time.Duration(report.CPUUS) * time.Microsecond
	}
	ended, err := a.q.RecordProbe(ctx, a.db.Pool, &row)
	if err != nil || len(ended) == 0 {
		return false, err
	}
	l.endProbe(ctx, h, p.WorkerID, outcome)
	if outcome.Passed && outcome.CPU > 0 {
		a.noteSpeed(ctx, l, p.WorkerID, asked.Language, report.CPUUS)
	}
	return true, nil
}

// endProbe forgets the lease of a probe and tells health how it came out.
func (l *leadership) endProbe(ctx context.Context, h foundLease, workerID int64, outcome health.Outcome) {
	now := l.a.clock.Now()
	l.mu.Lock()
	l.letGo(h.token)
	l.board.RemoveJob(h.jobID)
	l.noteHealth(l.health.ProbeEnded(workerID, h.jobID, outcome, now))
	l.enlist(workerID, now)
	due, more := l.health.Due(workerID, now)
	l.mu.Unlock()
	if more && due.Urgent { // the next of a round need not wait for the tick
		if err := l.offerProbe(ctx, workerID, due); err != nil && ctx.Err() == nil {
			l.a.log.Warn("making a probe failed", "worker_id", workerID, "error", err)
		}
	}
	l.poke()
}

// noteSpeed keeps a measurement; one that cannot be kept is in the state still.
func (a *Arbiter) noteSpeed(ctx context.Context, l *leadership, workerID int64, language string, cpuUS int64) {
	l.mu.Lock()
	factor := l.health.Factor(workerID)
	l.mu.Unlock()
	if _, err := a.q.InsertSpeed(ctx, a.db.Pool, &storedb.InsertSpeedParams{
		WorkerID: workerID, At: a.clock.Now(), Language: language, CPUUs: cpuUS, Factor: factor,
	}); err != nil {
		a.log.Warn("a measurement of speed was not kept", "worker_id", workerID, "error", err)
	}
}

// probeLost ends a probe whose lease ended without an answer. Its job waits
// again by now; it is not given a second time.
func (l *leadership) probeLost(ctx context.Context, h *held) {
	if _, err := l.a.q.EndProbeJob(ctx, l.a.db.Pool, &storedb.EndProbeJobParams{JobID: h.jobID, Outcome: "lost", Message: "its lease was lost"}); err != nil {
		l.a.log.Warn("ending a lost probe failed; it is given again", "job_id", h.jobID, "error", err)
		return
	}
	now := l.a.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.letGo(h.token)
	l.board.RemoveJob(h.jobID)
	if l.asleep(h.workerID, now) {
		l.health.ProbeDropped(h.workerID, h.jobID)
	} else {
		l.noteHealth(l.health.ProbeLost(h.workerID, h.jobID, h.registered, now))
	}
	l.enlist(h.workerID, now)
	l.poke()
}

// probeRefused ends a probe that its worker handed back as one it cannot do.
func (l *leadership) probeRefused(ctx context.Context, h *held) {
	const message = "handed back as one that it cannot do"
	if _, err := l.a.q.EndProbeJob(ctx, l.a.db.Pool, &storedb.EndProbeJobParams{JobID: h.jobID, Outcome: "failed", Message: message}); err != nil {
		l.a.log.Warn("ending a refused probe failed; it is given again", "job_id", h.jobID, "error", err)
		return
	}
	l.endProbe(ctx, foundLease{jobID: h.jobID, token: h.token}, h.workerID, health.Outcome{Message: message, Blame: health.BlameHost})
}

// dropOrphans ends probes of an earlier term that nobody waits for.
func (l *leadership) dropOrphans(ctx context.Context) {
	l.mu.Lock()
	orphans := l.orphans
	l.orphans = nil
	l.mu.Unlock()
	for _, job := range orphans {
		rows, err := l.a.q.EndProbeJob(ctx, l.a.db.Pool, &storedb.EndProbeJobParams{JobID: job, Outcome: "dropped", Message: "the arbiter that made it is gone"})
		if err != nil {
			l.a.log.Warn("ending an old probe failed", "job_id", job, "error", err)
			continue
		}
		if len(rows) > 0 {
			l.mu.Lock()
			l.board.RemoveJob(job)
			l.mu.Unlock()
		}
	}
}

// isProbe says whether a lease is one of a probe.
func (h *held) isProbe() bool { return h.job.Lane == dispatch.Probe }
