package icpc

import (
	"cmp"
	"context"
	"slices"

	"github.com/gavel-oj/gavel/internal/problem"
)

// trialKinds are the directories below data/ that hold trials. They take no
// part in judging, so what cannot be used is told of and left out.
var trialKinds = []string{problem.TrialInvalidInput, problem.TrialInvalidOutput, problem.TrialValidOutput}

// findTrials lists the inputs and outputs that the package's own programs are
// to be tried with, in the order of their paths' bytes.
func (im *importer) findTrials(g *groups) error {
	for _, kind := range trialKinds {
		f, err := im.pairFiles("data/" + kind)
		if err != nil {
			return err
		}
		if len(f.byBase) > 0 && kind != problem.TrialInvalidInput && im.m.Checker.Kind == problem.CheckerInteractor {
			im.warn.add("data/%s is not looked at: an interactive problem has no outputs to try its validator with", kind)
			continue
		}
		bases := make([]string, 0, len(f.byBase))
		for base := range f.byBase {
			bases = append(bases, base)
		}
		slices.Sort(bases)
		for _, base := range bases {
			if im.ctx.Err() != nil {
				return context.Cause(im.ctx)
			}
			if err := im.addTrial(g, kind, base, f); err != nil {
				return err
			}
		}
		if f.odd.n > 0 {
			im.warn.add("not looked at in data/%s: %s", kind, &f.odd)
		}
	}
	return nil
}

// addTrial adds one, if all of its files are there.
func (im *importer) addTrial(g *groups, kind, base string, f *found) error {
	files := f.byBase[base]
	if kind == problem.TrialInvalidInput {
		for _, p := range []string{files.ans, files.out} {
			if p != "" {
				f.odd.add(p)
			}
		}
		files.ans, files.out = "", ""
	}
	complete := files.in != "" && (kind == problem.TrialInvalidInput || files.ans != "" && files.out != "")
	if !complete {
		f.odd.add(cmp.Or(files.in, files.ans, files.out, files.yaml))
		return nil
	}
	t, err := im.newTest(g, base, files)
	if err != nil {
		return err
	}
	t.Args = nil // no submission runs on it
	if kind == problem.TrialInvalidInput {
		t.Tokens, t.CheckerArgs = nil, nil
	}
	im.m.Trials = append(im.m.Trials, problem.Trial{Test: t, Kind: kind, Output: files.out})
	return nil
}

// settleTrials leaves out the inputs that nobody may refuse: without a validator
// there is nobody, and one that is not run might have been the one to do it.
func (im *importer) settleTrials() {
	if !im.m.HasTrial(problem.TrialInvalidInput) {
		return
	}
	switch {
	case im.validatorsLeftOut > 0:
		im.warn.add("data/invalid_input is not looked at, because not all input validators are run")
	case len(im.m.InputValidators) == 0:
		im.warn.add("data/invalid_input is not looked at: the package has no input validator that could refuse it")
	default:
		return
	}
	im.m.Trials = slices.DeleteFunc(im.m.Trials, func(t problem.Trial) bool { return t.Kind == problem.TrialInvalidInput })
	if len(im.m.Trials) == 0 {
		im.m.Trials = nil
	}
}
