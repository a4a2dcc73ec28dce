package judge

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/gavel-oj/gavel/internal/judge/checker"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/verdict"
)

// thinking is the wall time that a program has beyond its limit because its
// interactor needs some too. An interactor's CPU time is its own in any case.
const thinking = 2 * time.Second

// errTalkOver ends one side when the machine failed the other.
var errTalkOver = errors.New("the other side of an interactive run could not be run")

// interactive reports whether an interactor decides.
func (v *evaluation) interactive() bool {
	return v.task.Package.Manifest.Checker.Kind == problem.CheckerInteractor
}

// converse runs the program once together with its interactor, each in its own
// box, and decides: docs/design/interactive.md.
func (a *attempt) converse(ctx context.Context, t *problem.Test, killAt time.Duration) (*ran, error) {
	limits := a.custom.program.Limits
	release, err := a.e.memory.acquire(ctx, a.task.Limits.MemoryBytes+limits.MemoryBytes)
	if err != nil {
		return nil, asFault(ctx, err, "wait for memory")
	}
	defer release()
	r, err := newRelay(a.task.Limits.OutputBytes, limits.OutputBytes)
	if err != nil {
		return nil, asFault(ctx, err, "make pipes")
	}
	both, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.start()

	talk := &conversation{attempt: a, relay: r, said: newStderr()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if talk.interact(both, t); talk.interactErr != nil {
			cancel(errTalkOver)
		}
	}()
	if talk.runProgram(both, t, killAt); talk.programErr != nil {
		cancel(errTalkOver)
	}
	<-done
	r.close()
	return talk.outcome(ctx)
}

// conversation is one interactive run.
type conversation struct {
	*attempt

	relay *relay

	res        sandbox.Result
	refused    *ran // what became of a program that could not be started
	said       *stderrOf
	judged     bool
	programErr error

	answer      checker.Result
	failure     *checker.Failure
	interactErr error
}

// runProgram runs the contestant's side.
func (c *conversation) runProgram(ctx context.Context, t *problem.Test, killAt time.Duration) {
	r := c.relay
	spec := c.spec(t.Args, killAt)
	spec.Stdin, spec.StdoutFD, spec.Started, spec.Enforce = r.program.in, r.program.out, r.program.close, r.toInteractor.over
	spec.Stderr = c.said
	spec.Limits.Wall += thinking
	c.res, c.programErr = c.startIn(ctx, granted{c.core.run}, spec)
	r.program.close()
	if c.programErr != nil {
		if c.refused = c.notStarted(c.programErr); c.refused != nil {
			c.programErr = nil
		}
	}
	v, _ := verdict.OfRun(c.talkFacts())
	failed := v != verdict.AC || c.refused != nil
	if c.judged = r.endProgram(failed); failed && !c.judged {
		r.toProgram.stop(sandbox.LimitWall) // whatever the interactor makes of it
	}
}

// interact runs the jury's side.
func (c *conversation) interact(ctx context.Context, t *problem.Test) {
	r, pkg := c.relay, c.task.Package
	defer r.interactor.close()
	for _, rel := range []string{t.Input, t.Answer} {
		if _, err := os.Stat(pkg.Path(rel)); err != nil {
			c.interactErr = packageFault(err, rel)
			return
		}
	}
	// Its wall limit is for one that does nothing once the program has ended.
	wall := c.task.Limits.Wall + thinking + checker.WallOf(c.custom.program.Limits.CPU)
	var err error
	c.answer, err = c.custom.program.Check(ctx, granted{c.core.check}, checker.Case{
		Input: pkg.Path(t.Input), Answer: pkg.Path(t.Answer), Output: r.interactor.in, Args: c.checkerArgs(t),
		Talk: &checker.Talk{Answers: r.interactor.out, Wall: wall, Started: r.interactor.close, Enforce: r.toProgram.over},
	})
	r.interactorEnd.Store(true)
	if failure, ok := errors.AsType[*checker.Failure](err); ok {
		c.failure, err = failure, nil
	}
	c.interactErr = err
	if err == nil && (c.failure != nil || !c.answer.Accepted) {
		r.toInteractor.stop(sandbox.LimitWall) // what the program does now is of no account
	}
}

// talkFacts are what is known of the program's run.
func (c *conversation) talkFacts() verdict.Run {
	c.res.StdoutBytes = c.relay.toInteractor.passed.Load()
	facts := c.facts(c.res)
	facts.WallLimit += thinking
	return facts
}

// outcome makes a test's result of what both did.
func (c *conversation) outcome(ctx context.Context) (*ran, error) {
	for _, err := range []error{c.programErr, c.interactErr} {
		if err != nil && !errors.Is(err, errTalkOver) {
			return nil, asFault(ctx, err, "run with an interactor")
		}
	}
	if c.refused != nil {
		return c.refused, nil
	}
	said := verdict.SaidNothing
	switch {
	case c.failure != nil:
	case c.answer.Accepted:
		said = verdict.SaidAccepted
	default:
		said = verdict.SaidWrong
	}
	facts := c.talkFacts()
	r := &ran{stderr: c.said, fired: c.res.Fired, test: testOf(c.res)}
	r.test.Verdict, r.test.Reason = verdict.OfTalk(verdict.Talk{Program: facts, Judged: c.judged, Said: said})
	switch {
	case r.test.Verdict == verdict.SE && c.failure != nil:
		return nil, faultf(BlameChecker, nil, "%s", c.failure.Message)
	case r.test.Verdict == verdict.SE:
		return nil, faultf(BlameHost, nil, "run ended by the limit %q, which this engine does not know", c.res.Fired)
	case r.test.Verdict == verdict.TLE && r.test.Reason != verdict.ReasonCPU && c.res.Wall-c.res.Starved-c.answer.CPU <= c.task.Limits.Wall:
		return nil, faultf(BlameChecker, nil, "the interactor took %v of the %v that a run may last: it left the program less than its wall limit",
			c.answer.CPU.Round(time.Millisecond), c.task.Limits.Wall+thinking)
	}
	if r.test.Verdict == verdict.AC || r.test.Verdict == verdict.WA {
		r.test.Message = c.answer.Message
	}
	c.said.refused.hint(&r.test)
	return r, nil
}
