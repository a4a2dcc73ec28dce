package judge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gavel-oj/gavel/internal/judge/checker"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/verdict"
)

// selfTestRuns is how often each self-test program runs: a runtime that fails
// now and then must not be offered.
const selfTestRuns = 3

// selfTestLimits are those of an ordinary problem, with time for a slow
// machine.
var selfTestLimits = problem.Limits{
	CPUMS: 10_000, MemoryBytes: 256 << 20, OutputBytes: 1 << 20, CodeBytes: 64 << 10, Processes: 64,
}

// Offer says whether this machine can judge a language.
type Offer struct {
	Language string
	OK       bool
	Version  string        // of the toolchain, if it told
	Reason   string        // why not, for an operator
	Took     time.Duration // of the whole self-test
}

// SelfTest compiles and runs every language's self-test program, through the
// same boxes, limits and comparator as any submission. It returns one Offer
// per language, in the registry's order; only those that are OK may be
// offered. One that passed on the machine as it is now, under an earlier engine
// with the same scratch directory, is not judged again. Its error is the cause
// of ctx's end, or errors of the engine itself.
func (e *Engine) SelfTest(ctx context.Context) ([]Offer, error) {
	return e.SelfTestOf(ctx, e.cfg.Languages.All())
}

// SelfTestOf is SelfTest of these languages alone. Submissions that are judged
// at the same time go first: a self-test gives way to them and is begun again.
func (e *Engine) SelfTestOf(ctx context.Context, all []*language.Language) ([]Offer, error) {
	offers := make([]Offer, len(all))
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, lang := range all {
		wg.Go(func() {
			errs[i] = e.givingWay(ctx, selfTestPatience, func(p place) (err error) {
				offers[i], err = e.selfTest(ctx, lang, p)
				return err
			})
		})
	}
	wg.Wait()
	e.prepareOffered(ctx, all, offers)
	return offers, errors.Join(errs...)
}

func (e *Engine) selfTest(ctx context.Context, lang *language.Language, p place) (Offer, error) {
	offer := Offer{Language: lang.ID}
	from := e.clock.Now()
	if e.provenBefore(ctx, lang, p) {
		offer.OK, offer.Took = true, e.clock.Now().Sub(from)
		offer.Version, _ = e.versions.get(lang.ID)
		return offer, nil
	}
	pkg, err := e.selfTestPackage(lang)
	if err != nil {
		return offer, fmt.Errorf("self-test of %s: %w", lang.ID, err)
	}
	defer func() { _ = os.RemoveAll(pkg.Dir) }()
	limits, err := language.Effective(selfTestLimits, lang)
	if err != nil {
		return offer, fmt.Errorf("self-test of %s: %w", lang.ID, err)
	}
	report, err := e.Judge(ctx, Task{
		Source: []byte(lang.SelfTest.Source), SourceName: lang.Source, Language: lang.ID,
		Package: pkg, Limits: Limits(limits), Stop: StopFirst, fresh: true, place: p,
	}, func(Progress) {})
	offer.Took = e.clock.Now().Sub(from)
	offer.Version, _ = e.versions.get(lang.ID)
	var fault *Fault
	switch {
	case errors.As(err, &fault):
		offer.Reason = fault.Error()
		return offer, nil
	case err != nil:
		return offer, err
	}
	offer.OK = report.Verdict == verdict.AC
	if offer.OK {
		e.remember(lang)
	} else {
		offer.Reason = refusal(report)
	}
	return offer, nil
}

// selfTestPackage is a package whose tests are all the self-test's.
func (e *Engine) selfTestPackage(lang *language.Language) (*problem.Package, error) {
	dir, err := e.scratch.newTask()
	if err != nil {
		return nil, err
	}
	pkg := &problem.Package{Dir: dir, Digest: "self-test:" + lang.ID, Manifest: problem.Manifest{
		Name: "self-test", Checker: problem.Checker{Kind: problem.CheckerTokens, Tokens: problem.TokenOptions{CaseSensitive: true, SpaceChangeSensitive: true}},
	}}
	for name, text := range map[string]string{"in": lang.SelfTest.Input, "ans": lang.SelfTest.Output} {
		if err := writeFile(filepath.Join(dir, name), strings.NewReader(text), 0o444); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	for i := range selfTestRuns {
		pkg.Manifest.Tests = append(pkg.Manifest.Tests, problem.Test{Name: fmt.Sprintf("run-%d", i+1), Input: "in", Answer: "ans"})
	}
	return pkg, nil
}

// refusalBytes bounds what is quoted of a self-test program's standard error.
const refusalBytes = 500

// refusal says why a self-test failed.
func refusal(r *Report) string {
	if r.Verdict == verdict.CE {
		return "the self-test program does not compile: " + r.Compile.Log
	}
	for _, t := range r.Tests {
		if t.Verdict != verdict.AC {
			why := fmt.Sprintf("%s of the self-test program: %s %s (exit code %d, signal %d, cpu %v, memory %d KiB) %s",
				t.Name, t.Verdict, t.Reason, t.ExitCode, t.Signal, t.CPU, t.MemoryBytes>>10, t.Message)
			if t.Wrote != nil && len(t.Wrote.Stderr) > 0 {
				end := t.Wrote.Stderr[max(0, len(t.Wrote.Stderr)-refusalBytes):] // where interpreters say why
				text, _ := checker.Clean(end, refusalBytes)
				why += "; it wrote: " + strings.TrimSpace(text)
			}
			return why
		}
	}
	return "the self-test program ended with " + string(r.Verdict)
}
