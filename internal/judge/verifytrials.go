package judge

import (
	"context"
	"os"
	"slices"

	"github.com/gavel-oj/gavel/internal/problem"
)

// trials are the package's trials of some kinds.
func (v *evaluation) trials(kinds ...string) (tests []*problem.Test) {
	for i := range v.task.Package.Manifest.Trials {
		if t := &v.task.Package.Manifest.Trials[i]; slices.Contains(kinds, t.Kind) {
			tests = append(tests, &t.Test)
		}
	}
	return tests
}

// lookAtOutputs has the checker judge the outputs of which the package says
// what it must say of them.
func (v *evaluation) lookAtOutputs(ctx context.Context, r *VerifyReport) error {
	for _, kind := range []struct {
		kind   string
		accept bool
		look   look
		wrong  string
	}{
		{problem.TrialValidOutput, true, look{"outputs", "outputs that are right", "each is accepted"}, "it is right, and is not accepted"},
		{problem.TrialInvalidOutput, false, look{"outputs", "outputs that are wrong", "each is refused"}, "it is wrong, and is accepted"},
	} {
		tests := v.trials(kind.kind)
		if len(tests) == 0 {
			continue
		}
		outputs := v.outputs(kind.kind)
		err := v.each(ctx, r, kind.look, tests, func(ctx context.Context, i int, t *problem.Test) (string, error) {
			output, err := os.Open(v.task.Package.Path(outputs[i]))
			if err != nil {
				return "", packageFault(err, outputs[i])
			}
			defer func() { _ = output.Close() }()
			result, err := v.ask(ctx, t, output)
			if err != nil || result.Accepted == kind.accept {
				return "", err
			}
			return withMessage(kind.wrong, result.Message), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// outputs are the paths of the outputs of the trials of a kind, in their order.
func (v *evaluation) outputs(kind string) (paths []string) {
	for _, t := range v.task.Package.Manifest.Trials {
		if t.Kind == kind {
			paths = append(paths, t.Output)
		}
	}
	return paths
}

// lookAtRefusals has the inputs that are not valid refused: each by one of the
// input validators at least, whichever it is.
func (v *evaluation) lookAtRefusals(ctx context.Context, r *VerifyReport) error {
	tests := v.trials(problem.TrialInvalidInput)
	v.progress(Progress{Phase: PhaseCompiling, TestsTotal: len(tests)})
	var validators []*builtChecker
	for n := range v.task.Package.Manifest.InputValidators {
		built, err := v.buildValidator(ctx, n, r)
		if built == nil || err != nil {
			return err
		}
		validators = append(validators, built)
	}
	return v.each(ctx, r, look{"invalid inputs", "inputs that are not valid", "each is refused"}, tests,
		func(ctx context.Context, _ int, t *problem.Test) (string, error) {
			for _, validator := range validators {
				if result, err := v.validate(ctx, validator, t); err != nil || !result.Accepted {
					return "", err
				}
			}
			return "it is not valid, and no input validator refuses it", nil
		})
}
