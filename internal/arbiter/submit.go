package arbiter

import (
	"context"
	"errors"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/auth"
	"github.com/gavel-oj/gavel/internal/dispatch"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// CreateSubmission implements httpapi.Service. What it answers is put together
// from what it has stored, and is what reading it would give.
func (a *Arbiter) CreateSubmission(ctx context.Context, p auth.Principal, key string, bodyHash []byte, n gavelapi.NewSubmission) (gavelapi.Submission, bool, error) {
	var none gavelapi.Submission
	lang, ok := a.cfg.Languages.Get(n.Language)
	if !ok {
		return none, false, apperr.New(apperr.Unsupported, "gavel language list shows the known ones", "there is no language%s", apperr.Named(n.Language)).At("body.language")
	}
	row, err := a.publishedRow(ctx, n.Problem)
	if e, ok := errors.AsType[*apperr.Error](err); ok && e.Code == apperr.NotFound {
		if why, ok := errors.AsType[*apperr.Error](a.notPublished(ctx, n.Problem)); ok {
			e = why
		}
		return none, false, e.At("body.problem")
	}
	if err != nil {
		return none, false, err
	}
	known, err := a.knownPackage(ctx, row.PackageDigest)
	if err != nil {
		return none, false, unavailable(err, "read the problem's package")
	}
	src, err := a.checkSource(n, lang, &known.rules)
	if err != nil {
		return none, false, err
	}
	limits, err := language.Effective(known.rules.Limits, lang)
	if err != nil {
		return none, false, apperr.Wrap(err, apperr.Internal, "import the package again", "the limits of problem %s do not fit this language", row.Name)
	}
	if n.StopRule == "" {
		n.StopRule = "first"
	}
	priority := int16(dispatch.ClassPractice)
	if n.Priority == gavelapi.PriorityContest {
		priority = dispatch.ClassContest
	}
	tokenID, wire := p.TokenID, wireLimits(limits)
	done, err := a.db.Submit(ctx, store.NewSubmission{
		Submission: storedb.InsertSubmissionParams{
			ProblemID: row.ID, Language: lang.ID, Submitter: n.User, SourceName: src.name, Source: src.main,
			SourceBytes: src.bytes, StopRule: n.StopRule, CreatedBy: &tokenID, TokenID: p.TokenID,
			PackageDigest: row.PackageDigest, Limits: mustJSON(wire), Lane: dispatch.Judge.String(),
			Priority: priority, MemoryBytes: limits.MemoryBytes, CPUUs: limits.CPU.Microseconds(),
		},
		Files: src.more, Key: store.IdempotencyKey{Text: key, BodyHash: bodyHash}, MaxWaiting: a.cfg.MaxWaitingPerUser,
	})
	if err != nil {
		if code := apperr.CodeOf(err); code == apperr.Invalid || code == apperr.TooMany {
			return none, false, err
		}
		return none, false, unavailable(err, "store a submission")
	}
	if l := a.current.Load(); l != nil && !done.Replayed {
		l.mu.Lock()
		l.enqueue(dispatch.Job{
			ID: done.JobID, Lane: dispatch.Judge, Class: int(priority), Submitter: n.User, Language: lang.ID,
			Problem: row.ID, Package: row.PackageDigest,
			Needs: dispatch.Needs{Features: done.Features, MemoryBytes: done.MemoryBytes, Tight: limits.CPU > 0 && limits.CPU <= tightLimit},
		})
		l.mu.Unlock()
		l.poke()
	}
	if done.Replayed {
		sub, err := a.Submission(ctx, done.SubmissionID, 0)
		return sub, true, err
	}
	sub := gavelapi.Submission{
		ID: done.SubmissionID, Problem: row.Name, PackageDigest: row.PackageDigest, Language: lang.ID, User: n.User,
		SourceName: src.name, SourceBytes: src.bytes, SourceFiles: 1 + len(src.more),
		State: gavelapi.StatePending, CreatedAt: done.CreatedAt.UTC(),
		Detail: &gavelapi.SubmissionDetail{
			JudgingID: done.JudgingID, Limits: wire, Tests: []gavelapi.TestResult{}, Attempts: []gavelapi.Attempt{},
			Judgings: []gavelapi.JudgingInfo{{
				ID: done.JudgingID, Kind: "judge", State: gavelapi.StatePending, PackageDigest: row.PackageDigest,
				Current: true, CreatedAt: done.CreatedAt.UTC(),
			}},
		},
	}
	sub.Waiting, _ = a.memoryOf(ctx, sub.State, &done.JobID, nil, "")
	return sub, false, nil
}
