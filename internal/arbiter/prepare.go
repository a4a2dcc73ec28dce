package arbiter

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/auth"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/report"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// kindPrepare is the kind of the jobs that prepare packages.
const kindPrepare = report.KindPrepare

// maxPrepared bounds the submissions of a package that are judged before it is
// published.
const maxPrepared = 500

var prepareFeatures = []string{gavelapi.FeaturePrepare}

// prepareSteps is what has to be done before a package may be published: its
// programs first, then its submissions, in their order.
func (a *Arbiter) prepareSteps(m *problem.Manifest, verify string) ([]store.PrepareStep, error) {
	checker := store.PrepareStep{Kind: gavelapi.StepChecker, Path: m.Checker.Program, Language: programLanguage(m.Checker.Language)}
	steps := []store.PrepareStep{checker}
	for _, v := range m.InputValidators {
		steps = append(steps, store.PrepareStep{Kind: gavelapi.StepValidator, Path: v.Path, Language: programLanguage(v.Language)})
	}
	if m.HasTrial(problem.TrialInvalidInput) {
		steps = append(steps, refusalStep(m))
	}
	if verify != gavelapi.VerifyAll {
		return steps, nil
	}
	if len(m.Submissions) > maxPrepared {
		return nil, apperr.New(apperr.Unsupported, "keep those that matter, or import it with verify=data (--skip-submissions)",
			"the package declares %d submissions, at most %d can be judged before it is published", len(m.Submissions), maxPrepared).At("submissions")
	}
	for _, e := range m.Submissions {
		lang, ok := a.cfg.Languages.Get(e.Language)
		if !ok {
			return nil, apperr.New(apperr.Unsupported, "gavel language list shows the known ones", "its language %s is not known", e.Language).At(e.Path)
		}
		limits, err := language.Effective(m.Limits, lang)
		if err != nil {
			return nil, apperr.Wrap(err, apperr.Invalid, "correct the limits in problem.yaml", "the limits do not fit the language %s", lang.ID).At(e.Path)
		}
		steps = append(steps, store.PrepareStep{
			Kind: gavelapi.StepSubmission, Path: e.Path, Language: lang.ID, Expected: strings.Join(e.Expected, " "), Limits: mustJSON(wireLimits(limits)),
		})
	}
	return steps, nil
}

// refusalStep tries all input validators at once, because an input is refused
// when any of them refuses it. So it asks for the languages of all.
func refusalStep(m *problem.Manifest) store.PrepareStep {
	var languages []string
	for _, v := range m.InputValidators {
		if l := programLanguage(v.Language); l != "" && !slices.Contains(languages, l) {
			languages = append(languages, l)
		}
	}
	return store.PrepareStep{Kind: gavelapi.StepRefusal, Path: "data/" + problem.TrialInvalidInput, Language: strings.Join(languages, " ")}
}

// programLanguage is what a worker must offer to build a program of a package.
func programLanguage(id string) string {
	if id == problem.LanguageScript {
		return "" // it brings what it needs, or asks for what every worker has
	}
	return id
}

// addPrepare puts a step into its lease.
func (a *Arbiter) addPrepare(lease *gavelapi.Lease, s *storedb.PreparePayloadsRow) bool {
	if s == nil {
		return false
	}
	lease.Problem, lease.StopRule = s.Problem, "first"
	lease.Prepare = &gavelapi.LeasePrepare{Step: s.Kind, Path: s.Path}
	if s.Limits == nil {
		return true
	}
	if err := json.Unmarshal(s.Limits, &lease.Limits); err != nil {
		a.log.Error("stored limits cannot be read", "step_id", s.ID, "error", err)
		return false
	}
	return true
}

// recordStep records the findings of a step under a live lease; false means
// that it was not live (I2, I3).
func (a *Arbiter) recordStep(ctx context.Context, l *leadership, p auth.Principal, h foundLease, rep *gavelapi.Report) (bool, error) {
	step, err := a.q.PreparationOfStep(ctx, a.db.Pool, h.workID)
	if store.IsNoRows(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	findings := rep.Prepare.Findings
	if step.Kind == gavelapi.StepSubmission {
		findings = []gavelapi.Finding{compareDeclared(findings[0], rep.Prepare.Verdict, strings.Fields(step.Expected))}
	}
	known := l.lookUp(h)
	rows, err := a.q.RecordPrepareStep(ctx, a.db.Pool, &storedb.RecordPrepareStepParams{
		JobID: h.jobID, LeaseToken: h.token, WorkerID: p.WorkerID, Findings: mustJSON(findings),
		Failed: slices.ContainsFunc(findings, func(f gavelapi.Finding) bool { return f.Outcome != gavelapi.FindingOK }),
	})
	if err != nil || len(rows) == 0 {
		return false, err
	}
	l.finish(h.token, h.jobID)
	l.judged(known)
	a.stepEnded(ctx, h.workID)
	a.watch.changed(h.subject())
	return true, nil
}

// compareDeclared says whether a submission got what its package declares.
// Without a verdict the finding says why there is none.
func compareDeclared(f gavelapi.Finding, verdict string, expected []string) gavelapi.Finding {
	if verdict == "" {
		f.Outcome = gavelapi.FindingFailed
		return f
	}
	f.Outcome = gavelapi.FindingOK
	declared := "as declared"
	if !slices.Contains(expected, verdict) {
		f.Outcome, declared = gavelapi.FindingFailed, "declared is "+strings.Join(expected, " or ")
	}
	f.Detail = strings.TrimSuffix(fmt.Sprintf("%s, %s: %s", verdict, declared, f.Detail), ": ")
	return f
}

// stepEnded takes the preparation of a step on. What fails here is made good by
// the leader's next look.
func (a *Arbiter) stepEnded(ctx context.Context, stepID int64) {
	step, err := a.q.PreparationOfStep(ctx, a.db.Pool, stepID)
	if err == nil {
		err = a.settle(ctx, step.PreparationID)
	}
	if err != nil && ctx.Err() == nil {
		a.log.Warn("taking a preparation on failed", "step_id", stepID, "error", err)
	}
}

var lostStep = gavelapi.Fault{Blame: gavelapi.BlameHost, Message: "its worker was lost, and its job with it; import the package again"}

func (a *Arbiter) settle(ctx context.Context, id int64) error {
	out, err := a.db.Settle(ctx, id, prepareFeatures, mustJSON(lostStep))
	if err != nil {
		return err
	}
	a.offer(out.Jobs)
	if out.Changed {
		a.log.Info("problem prepared", "problem", out.Problem, "preparation_id", id, "state", out.State)
		a.watch.changed(preparations)
	}
	return nil
}

// settleAll takes on what nobody took on when its step ended.
func (a *Arbiter) settleAll(ctx context.Context) error {
	ids, err := a.q.PreparationsAtWork(ctx, a.db.Pool)
	if err != nil {
		return fmt.Errorf("read preparations: %w", err)
	}
	for _, id := range ids {
		if err := a.settle(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// offer tells the dispatch loop here of new jobs; that of another arbiter finds
// them within a scan.
func (a *Arbiter) offer(jobs []*storedb.Job) {
	l := a.current.Load()
	if l == nil || len(jobs) == 0 {
		return
	}
	l.mu.Lock()
	for _, j := range jobs {
		l.enqueue(jobOf(j))
	}
	l.mu.Unlock()
	l.poke()
}
