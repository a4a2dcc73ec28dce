package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/problem"
)

// Why a run ends before its engine is done, besides errLost.
var (
	errHandBack = errors.New("the worker is stopping and hands its work back")
	errStuck    = errors.New("the judging took longer than all of its limits together allow")
	errUndead   = errors.New("the engine does not return although it was told to stop")
)

// killLimit is how long an engine may take to return once its context ended.
const killLimit = 10 * time.Second

// run is one lease being worked on, in one slot.
type run struct {
	w      *Worker
	lease  gavelapi.Lease
	log    *slog.Logger
	keeper *keeper
	cancel context.CancelCauseFunc
	phase  atomic.Pointer[gavelapi.Progress]
	stages map[string]int64 // µs

	// undead is closed by the engine's goroutine; nil when the engine has
	// returned or never ran.
	undead <-chan struct{}
	unuse  func() // of the package, which an undead engine may still read
}

// serve does one lease from its first heartbeat to the end of its slot.
func (w *Worker) serve(l gavelapi.Lease, received time.Time) {
	// Its own context: the end of work (a hand-back) kills the run, while
	// heartbeats go on until the lease is off our hands.
	ctx, cancel := context.WithCancelCause(w.work)
	defer cancel(nil)
	r := &run{
		w: w, lease: l, cancel: cancel, stages: map[string]int64{},
		log: w.log.With("job", l.JobID, "gen", l.LeaseGen, "submission", l.SubmissionID),
	}
	r.phase.Store(&gavelapi.Progress{Phase: "fetching"})
	r.keeper = newKeeper(w, l, received, cancel, r.phase.Load)
	w.started(r)
	defer w.freed(r)

	keepCtx, stopKeeping := context.WithCancel(w.send)
	defer stopKeeping()
	kept := make(chan struct{})
	go func() { defer close(kept); r.keeper.keep(keepCtx) }()
	defer func() { stopKeeping(); <-kept }()

	report, err := r.judge(ctx)
	r.finish(ctx, report, err)
	if r.undead != nil {
		r.bury()
	}
}

// judge waits for the first heartbeat, gets the package and runs the engine.
func (r *run) judge(ctx context.Context) (*gavelapi.Report, error) {
	clk := r.w.clk
	began := clk.Now()
	lap := func(stage string) {
		now := clk.Now()
		r.stages[stage] = now.Sub(began).Microseconds()
		began = now
	}
	select {
	case <-r.keeper.confirmed:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	lap("confirm")
	if r.lease.Run != nil {
		return r.try(ctx, lap)
	}
	pkg, done, err := r.w.cache.get(ctx, r.lease.PackageDigest)
	if err != nil {
		return nil, err
	}
	r.unuse = done
	defer func() {
		if r.undead == nil {
			done()
		}
	}()
	lap("fetch")
	if r.lease.Prepare != nil {
		return r.verify(ctx, pkg, lap)
	}

	t := task(r.lease)
	t.Package = pkg
	bound := wallBound(r.lease.Limits, pkg.Manifest, r.w.cfg.CompileWall(t.Language), r.w.cfg.Slack)
	r.show(&gavelapi.Progress{Phase: string(judge.PhaseCompiling), TestsTotal: len(pkg.Manifest.Tests)})
	rep, err := evaluate(ctx, r, bound, func(progress func(judge.Progress)) (*judge.Report, error) {
		return r.w.cfg.Judge.Judge(ctx, t, progress)
	})
	lap("judge")
	if err != nil {
		return nil, err
	}
	if err := checkReport(rep, len(pkg.Manifest.Tests)); err != nil {
		return nil, hostFault("the engine's answer is unusable", err)
	}
	wire := r.w.wireReport(r.lease, rep, r.stages)
	return &wire, nil
}

// try does a lease of kind run.
func (r *run) try(ctx context.Context, lap func(string)) (*gavelapi.Report, error) {
	r.unuse = func() {}
	if r.w.cfg.Runner == nil {
		return nil, hostFault("this worker does no runs", errors.New("it did not offer to"))
	}
	t := runTask(r.lease)
	r.show(&gavelapi.Progress{Phase: string(judge.PhaseCompiling), TestsTotal: len(t.Inputs)})
	bound := runBound(r.lease.Limits, len(t.Inputs), r.w.cfg.CompileWall(t.Language), r.w.cfg.Slack)
	rep, err := evaluate(ctx, r, bound, func(progress func(judge.Progress)) (*judge.RunReport, error) {
		return r.w.cfg.Runner.Run(ctx, t, progress)
	})
	lap("judge")
	if err != nil {
		return nil, err
	}
	if rep.Compile.OK && len(rep.Results) != len(t.Inputs) {
		return nil, hostFault("the engine's answer is unusable", fmt.Errorf("%d results of %d inputs", len(rep.Results), len(t.Inputs)))
	}
	wire := r.w.wireRun(r.lease, rep, r.stages)
	return &wire, nil
}

// verify does a lease of kind prepare.
func (r *run) verify(ctx context.Context, pkg *problem.Package, lap func(string)) (*gavelapi.Report, error) {
	if r.w.cfg.Verifier == nil {
		return nil, hostFault("this worker does not prepare packages", errors.New("it did not offer to"))
	}
	t := verifyTask(r.lease, pkg)
	r.show(&gavelapi.Progress{Phase: string(judge.PhaseCompiling), TestsTotal: len(pkg.Manifest.Tests)})
	compile := r.w.cfg.CompileWall(t.Language)
	bound := wallBound(r.lease.Limits, pkg.Manifest, compile, r.w.cfg.Slack)
	if t.Step != judge.VerifySubmission {
		bound = lookBound(pkg.Manifest, compile, r.w.cfg.Slack)
	}
	rep, err := evaluate(ctx, r, bound, func(progress func(judge.Progress)) (*judge.VerifyReport, error) {
		return r.w.cfg.Verifier.Verify(ctx, t, progress)
	})
	lap("judge")
	if err != nil {
		return nil, err
	}
	if len(rep.Findings) == 0 {
		return nil, hostFault("the engine's answer is unusable", errors.New("it has no findings"))
	}
	wire := r.w.wireVerified(r.lease, rep, r.stages)
	return &wire, nil
}

// evaluate runs the engine by do. It stops waiting for an engine that ignores
// the end of its context, so that one hanging run cannot hang the agent.
func evaluate[R any](ctx context.Context, r *run, bound time.Duration, do func(func(judge.Progress)) (*R, error)) (*R, error) {
	type outcome struct {
		rep *R
		err error
	}
	result := make(chan outcome, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		rep, err := guarded(r, do)
		result <- outcome{rep, err}
	}()
	stuck := r.w.clk.After(bound)
	for {
		select {
		case o := <-result:
			return o.rep, o.err
		case <-stuck:
			stuck = nil
			r.log.Error("run is stuck: no more heartbeats for it, and it is being killed", "bound_ms", bound.Milliseconds())
			r.keeper.silence()
			r.cancel(errStuck)
		case <-ctx.Done():
			select {
			case o := <-result:
				return o.rep, o.err
			case <-r.w.clk.After(killLimit):
				r.undead = ended
				return nil, errUndead
			}
		}
	}
}

// guarded turns a panic into a fault: one broken job must not take the other
// slots with it.
func guarded[R any](r *run, do func(func(judge.Progress)) (*R, error)) (rep *R, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.log.Error("the engine panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			rep, err = nil, hostFault("the engine panicked; the worker's log has the stack", fmt.Errorf("%v", p))
		}
	}()
	return do(func(p judge.Progress) {
		r.show(&gavelapi.Progress{Phase: string(p.Phase), TestsDone: p.TestsDone, TestsTotal: p.TestsTotal})
	})
}

// show notes how far the run is. A new phase is told soon, so that who watches
// does not read "fetching" through the whole of a short judging.
func (r *run) show(p *gavelapi.Progress) {
	if before := r.phase.Swap(p); before.Phase != p.Phase {
		r.keeper.poke()
	}
}

// finish decides what becomes of the attempt. ctx is the run's: its cause says
// who ended it, if anybody did.
func (r *run) finish(ctx context.Context, report *gavelapi.Report, err error) {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errLost):
		r.log.Warn("lease is dead, its work is dropped", "reason", cause)
	case err == nil:
		r.deliver(*report)
	case errors.Is(err, errUndead):
		// Whatever else is wrong, this machine cannot be trusted with the
		// job any more; a hand-back at a stop still helps the next worker.
		r.log.Error("the engine does not stop; the slot is lost until it does", "cause", cause)
		if errors.Is(cause, errHandBack) {
			r.w.release(r.lease, "shutdown")
		}
	case errors.Is(cause, errStuck):
		r.deliver(r.w.faultReport(r.lease, hostFault(errStuck.Error(), err), r.stages))
	case errors.Is(cause, errHandBack):
		r.w.release(r.lease, "shutdown")
	case cause != nil: // the agent ends for good and may call no more
		r.log.Warn("work is dropped", "reason", cause)
	default:
		r.log.Warn("job failed by a fault of the system", "error", err)
		r.deliver(r.w.faultReport(r.lease, err, r.stages))
	}
}

// bury waits, in the slot that is lost, for an engine that was given up.
func (r *run) bury() {
	r.w.slotDied()
	select {
	case <-r.undead:
		r.unuse()
		r.log.Warn("the engine returned after all; the slot is back")
		r.w.slotRevived()
	case <-r.w.work.Done():
	}
}

// deliver saves the result, reports it, and holds the slot until it is
// answered or the lease is lost; a result that is not answered by then stays
// in the outbox and is sent on from there.
func (r *run) deliver(rep gavelapi.Report) {
	p := *r.phase.Load()
	p.Phase = "reporting"
	r.phase.Store(&p)
	e := entry{
		LeaseToken: r.lease.LeaseToken, JobID: r.lease.JobID, LeaseGen: r.lease.LeaseGen,
		SubmissionID: r.lease.SubmissionID, TTLMS: r.lease.TTLMS, Report: rep,
	}
	if err := r.w.outbox.put(e); err != nil {
		r.log.Error("result cannot be saved; it is sent from memory, and no new work is taken", "error", err)
		r.w.keepInMemory(e, err)
	}
	select {
	case <-r.w.post(e):
	case <-r.keeper.gone:
		r.log.Warn("lease is dead before its result was answered; the result stays in the outbox and is sent on")
	case <-r.w.work.Done(): // the agent stops, and gives reports their last time without us
	}
}
