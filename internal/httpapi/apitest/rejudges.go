package apitest

import (
	"context"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/auth"
)

// StartRejudge implements httpapi.Service. A rejudge of a Fake selects every
// submission, leaves out numbers that none has, changes AC to WA, and is ready the second time it is read.
func (f *Fake) StartRejudge(ctx context.Context, _ auth.Principal, n gavelapi.NewRejudge) (gavelapi.Rejudge, error) {
	if err := f.enter(ctx, "StartRejudge"); err != nil {
		return gavelapi.Rejudge{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	r := gavelapi.Rejudge{
		ID: int64(len(f.rejudges) + 1), State: gavelapi.RejudgeRunning, Reason: n.Reason, Filter: n.Filter, Apply: n.Apply,
		Total: len(f.subs), Skipped: []gavelapi.RejudgeSkipped{}, CreatedAt: Epoch,
	}
	if r.Apply == "" {
		r.Apply = "later"
	}
	missing := 0
	for _, id := range n.Filter.Submissions {
		if id > int64(len(f.subs)) {
			missing++
			r.Skipped = append(r.Skipped, gavelapi.RejudgeSkipped{SubmissionID: id, Reason: "there is no such submission"})
		}
	}
	if missing > 0 && missing == len(n.Filter.Submissions) {
		r.Total = 0
	}
	f.rejudges = append(f.rejudges, r)
	return r, nil
}

// RejudgeSubmission implements httpapi.Service.
func (f *Fake) RejudgeSubmission(ctx context.Context, p auth.Principal, id int64, reason string) (gavelapi.Rejudge, error) {
	if _, err := f.Submission(ctx, id, 0); err != nil {
		return gavelapi.Rejudge{}, err
	}
	return f.StartRejudge(ctx, p, gavelapi.NewRejudge{Filter: gavelapi.RejudgeFilter{Submissions: []int64{id}}, Reason: reason, Apply: "at_once"})
}

// Rejudge implements httpapi.Service.
func (f *Fake) Rejudge(ctx context.Context, id int64) (gavelapi.Rejudge, error) {
	return f.changeRejudge(ctx, "Rejudge", id, func(r *gavelapi.Rejudge) error {
		if r.State != gavelapi.RejudgeRunning {
			return nil
		}
		if r.Done < r.Total {
			r.Done = r.Total
			return nil
		}
		at := Epoch
		r.State, r.Changed, r.FinishedAt = gavelapi.RejudgeReady, r.Total, &at
		return nil
	})
}

func (f *Fake) changeRejudge(ctx context.Context, method string, id int64, change func(*gavelapi.Rejudge) error) (gavelapi.Rejudge, error) {
	if err := f.enter(ctx, method); err != nil {
		return gavelapi.Rejudge{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if id < 1 || id > int64(len(f.rejudges)) {
		return gavelapi.Rejudge{}, apperr.New(apperr.NotFound, "list them: gavel rejudge list", "there is no such rejudge")
	}
	r := &f.rejudges[id-1]
	if err := change(r); err != nil {
		return gavelapi.Rejudge{}, err
	}
	return *r, nil
}

// Rejudges implements httpapi.Service.
func (f *Fake) Rejudges(ctx context.Context, cursor string, limit int) (gavelapi.RejudgeList, error) {
	if err := f.enter(ctx, "Rejudges"); err != nil {
		return gavelapi.RejudgeList{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	items, next, err := page(f.rejudges, cursor, limit)
	return gavelapi.RejudgeList{Rejudges: items, Next: next}, err
}

// RejudgeChanges implements httpapi.Service.
func (f *Fake) RejudgeChanges(ctx context.Context, id int64, _ bool, cursor string, limit int) (gavelapi.RejudgeChangeList, error) {
	r, err := f.changeRejudge(ctx, "RejudgeChanges", id, func(*gavelapi.Rejudge) error { return nil })
	if err != nil {
		return gavelapi.RejudgeChangeList{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []gavelapi.RejudgeChange
	for _, s := range f.subs {
		all = append(all, gavelapi.RejudgeChange{
			SubmissionID: s.ID, Problem: s.Problem, User: s.User, Language: s.Language, OldVerdict: "AC", NewVerdict: "WA",
			OldCPUUS: 3210, NewCPUUS: 4321, NewState: gavelapi.StateDone, Applied: r.State == gavelapi.RejudgeApplied,
		})
	}
	items, next, err := page(all, cursor, limit)
	return gavelapi.RejudgeChangeList{State: r.State, Changes: items, Next: next}, err
}

// ApplyRejudge implements httpapi.Service.
func (f *Fake) ApplyRejudge(ctx context.Context, _ auth.Principal, id int64, _ []int64, _ string) (gavelapi.Rejudge, error) {
	return f.end(ctx, "ApplyRejudge", id, gavelapi.RejudgeReady, gavelapi.RejudgeApplied)
}

// DiscardRejudge implements httpapi.Service.
func (f *Fake) DiscardRejudge(ctx context.Context, _ auth.Principal, id int64, _ string) (gavelapi.Rejudge, error) {
	return f.end(ctx, "DiscardRejudge", id, gavelapi.RejudgeReady, gavelapi.RejudgeDiscarded)
}

// CancelRejudge implements httpapi.Service.
func (f *Fake) CancelRejudge(ctx context.Context, _ auth.Principal, id int64, _ string) (gavelapi.Rejudge, error) {
	return f.end(ctx, "CancelRejudge", id, gavelapi.RejudgeRunning, gavelapi.RejudgeCancelled)
}

func (f *Fake) end(ctx context.Context, method string, id int64, from, to string) (gavelapi.Rejudge, error) {
	return f.changeRejudge(ctx, method, id, func(r *gavelapi.Rejudge) error {
		if r.State != from && r.State != to {
			return apperr.New(apperr.Conflict, "look at its state", "the rejudge is %s", r.State)
		}
		if r.State = to; to == gavelapi.RejudgeApplied {
			r.Applied = r.Changed
		}
		return nil
	})
}

// Account implements httpapi.Service.
func (f *Fake) Account(ctx context.Context, user string) (gavelapi.Account, error) {
	if err := f.enter(ctx, "Account"); err != nil {
		return gavelapi.Account{}, err
	}
	return gavelapi.Account{User: user, Points: 1, Solved: []gavelapi.Solve{{Problem: "aplusb", Points: 1, SubmissionID: 1, SolvedAt: Epoch}}}, nil
}
