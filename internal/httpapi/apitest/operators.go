package apitest

import (
	"context"
	"fmt"
	"slices"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/auth"
)

// changeWorker finds a worker of the fleet and changes it.
func (f *Fake) changeWorker(ctx context.Context, method, name string, change func(*gavelapi.WorkerInfo)) (gavelapi.WorkerInfo, error) {
	if err := f.enter(ctx, method); err != nil {
		return gavelapi.WorkerInfo{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.Fleet, func(w gavelapi.WorkerInfo) bool { return w.Name == name })
	if i < 0 {
		return gavelapi.WorkerInfo{}, apperr.New(apperr.NotFound, "gavel worker list shows all", "there is no worker %q", name)
	}
	change(&f.Fleet[i])
	return f.Fleet[i], nil
}

func (f *Fake) note(action, subject, reason string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.audit = append(f.audit, gavelapi.AuditEntry{ID: int64(len(f.audit) + 1), At: Epoch, TokenID: 1, Token: "admin", Action: action, Subject: subject, Reason: reason})
}

// Worker implements httpapi.Service.
func (f *Fake) Worker(ctx context.Context, name string) (gavelapi.WorkerInfo, error) {
	return f.changeWorker(ctx, "Worker", name, func(*gavelapi.WorkerInfo) {})
}

// ChangeWorker implements httpapi.Service.
func (f *Fake) ChangeWorker(ctx context.Context, _ auth.Principal, name string, c gavelapi.WorkerChange) (gavelapi.WorkerInfo, error) {
	w, err := f.changeWorker(ctx, "ChangeWorker", name, func(w *gavelapi.WorkerInfo) {
		w.State = map[string]string{"drain": "draining", "pause": "paused", "resume": "idle"}[c.Action]
		w.Away, w.AwayUntil = c.Note, c.Until
	})
	if err == nil {
		f.note("worker."+c.Action, name, c.Note)
	}
	return w, err
}

// LabelWorker implements httpapi.Service.
func (f *Fake) LabelWorker(ctx context.Context, _ auth.Principal, name string, l gavelapi.WorkerLabels) (gavelapi.WorkerInfo, error) {
	return f.changeWorker(ctx, "LabelWorker", name, func(w *gavelapi.WorkerInfo) {
		if l.Pool != "" {
			w.Pool = l.Pool
		}
		if l.Tags != nil {
			w.Tags = l.Tags
		}
		if l.Lanes != nil {
			w.Lanes = l.Lanes
		}
	})
}

// RemoveWorker implements httpapi.Service.
func (f *Fake) RemoveWorker(ctx context.Context, _ auth.Principal, name, reason string) error {
	if _, err := f.changeWorker(ctx, "RemoveWorker", name, func(*gavelapi.WorkerInfo) {}); err != nil {
		return err
	}
	f.mu.Lock()
	f.Fleet = slices.DeleteFunc(f.Fleet, func(w gavelapi.WorkerInfo) bool { return w.Name == name })
	f.mu.Unlock()
	f.note("worker.remove", name, reason)
	return nil
}

// Pools implements httpapi.Service.
func (f *Fake) Pools(ctx context.Context) (gavelapi.PoolList, error) {
	if err := f.enter(ctx, "Pools"); err != nil {
		return gavelapi.PoolList{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return gavelapi.PoolList{Pools: append([]gavelapi.Pool{}, f.pools...)}, nil
}

// SetPool implements httpapi.Service.
func (f *Fake) SetPool(ctx context.Context, _ auth.Principal, name string, s gavelapi.PoolSettings) (gavelapi.Pool, error) {
	if err := f.enter(ctx, "SetPool"); err != nil {
		return gavelapi.Pool{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	p := gavelapi.Pool{Name: name, Rank: s.Rank, Note: s.Note}
	f.pools = append(slices.DeleteFunc(f.pools, func(o gavelapi.Pool) bool { return o.Name == name }), p)
	return p, nil
}

// Queue implements httpapi.Service.
func (f *Fake) Queue(ctx context.Context) (gavelapi.Queue, error) {
	if err := f.enter(ctx, "Queue"); err != nil {
		return gavelapi.Queue{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return gavelapi.Queue{Leader: true, Brakes: append([]gavelapi.Brake{}, f.brakes...), Waiting: []gavelapi.QueueCount{{
		Lane: "judge", Language: "cpp17", Jobs: 3, Reasons: []gavelapi.QueueReason{{Cause: "queued", Reason: "all 2 able workers are busy", Jobs: 2}},
	}}}, nil
}

// SetBrake implements httpapi.Service.
func (f *Fake) SetBrake(ctx context.Context, _ auth.Principal, b gavelapi.Brake) error {
	if err := f.enter(ctx, "SetBrake"); err != nil {
		return err
	}
	since := Epoch
	b.Since = &since
	f.mu.Lock()
	f.brakes = append(f.brakes, b)
	f.mu.Unlock()
	f.note("queue.pause", b.Kind+" "+b.Name, b.Reason)
	return nil
}

// ReleaseBrake implements httpapi.Service.
func (f *Fake) ReleaseBrake(ctx context.Context, _ auth.Principal, kind, name, _ string) error {
	if err := f.enter(ctx, "ReleaseBrake"); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.brakes)
	f.brakes = slices.DeleteFunc(f.brakes, func(b gavelapi.Brake) bool { return b.Kind == kind && b.Name == name })
	if len(f.brakes) == n {
		return apperr.New(apperr.NotFound, "gavel queue show lists the brakes", "the %s %q is not held", kind, name)
	}
	return nil
}

// BumpSubmission implements httpapi.Service.
func (f *Fake) BumpSubmission(ctx context.Context, _ auth.Principal, id int64, _ string) (gavelapi.Submission, error) {
	s, err := f.Submission(ctx, id, 0)
	if err == nil && gavelapi.Final(s.State) {
		err = apperr.New(apperr.Conflict, "only what waits can be put in front", "submission %d does not wait", id)
	}
	return s, err
}

// Audit implements httpapi.Service.
func (f *Fake) Audit(ctx context.Context, _, cursor string, limit int) (gavelapi.AuditList, error) {
	if err := f.enter(ctx, "Audit"); err != nil {
		return gavelapi.AuditList{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	items, next, err := page(f.audit, cursor, limit)
	return gavelapi.AuditList{Entries: items, Next: next}, err
}

// Explain implements httpapi.Service.
func (f *Fake) Explain(ctx context.Context, id int64) (gavelapi.Explanation, error) {
	s, err := f.Submission(ctx, id, 0)
	if err != nil {
		return gavelapi.Explanation{}, err
	}
	return gavelapi.Explanation{
		SubmissionID: id, State: s.State, Summary: fmt.Sprintf("position %d in the queue; all 1 able workers are busy", id), Lane: "judge", Priority: "practice",
		Position: 2, EstimateMS: 1500, EstimateBasis: "place 2 for 2 slots, each taken for 1.5s by a job of late", Workers: []gavelapi.WorkerReason{{Worker: "home-pc", Reason: "all of its slots are busy"}, {Worker: "server-1"}},
		History: []gavelapi.ExplanationStep{{At: s.CreatedAt, Text: "handed in"}},
	}, nil
}
