package apitest

import (
	"context"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/auth"
)

// WorkerHealth implements httpapi.Service. The first worker of a Fake is set
// aside in one language, until somebody resets it.
func (f *Fake) WorkerHealth(ctx context.Context, name string) (gavelapi.WorkerHealth, error) {
	return f.health(ctx, "WorkerHealth", name, false)
}

// ResetHealth implements httpapi.Service.
func (f *Fake) ResetHealth(ctx context.Context, _ auth.Principal, name string, _ gavelapi.HealthReset) (gavelapi.WorkerHealth, error) {
	return f.health(ctx, "ResetHealth", name, true)
}

func (f *Fake) health(ctx context.Context, method, name string, reset bool) (gavelapi.WorkerHealth, error) {
	if err := f.enter(ctx, method); err != nil {
		return gavelapi.WorkerHealth{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.hasWorker(name) {
		return gavelapi.WorkerHealth{}, errNoWorker
	}
	h := gavelapi.WorkerHealth{Worker: name, SpeedFactor: 1, Drift: 1}
	if name != "home-pc" || reset {
		f.reset = f.reset || reset
		return h, nil
	}
	fault := gavelapi.HealthEvidence{
		Case: "job 7", JobID: 7, Language: "python3", Kind: "fault", Blame: "toolchain", Message: "python3 cannot be started", At: Epoch, Counts: true,
	}
	finished := Epoch.Add(time.Minute)
	h.SpeedFactor, h.Slow, h.Drift, h.ProbesDue = 1.62, true, 1.04, 4
	if !f.reset {
		h.SetAside = []gavelapi.SetAside{{
			Language: "python3", Since: Epoch, ProbeAfter: Epoch.Add(2 * time.Minute), FailedRounds: 1,
			Reason: "3 faults in a row, the last one: python3 cannot be started", Evidence: []gavelapi.HealthEvidence{fault},
		}}
	}
	h.Faults = []gavelapi.HealthEvidence{fault}
	h.Probes = []gavelapi.ProbeResult{
		{ID: 2, Language: "python3", Expected: "AC", Purpose: "return", CreatedAt: Epoch, FinishedAt: &finished, Outcome: "failed", Verdict: "RE", Message: "got RE, want AC", TookUS: 900_000},
		{ID: 1, Language: "cpp17", Expected: "TLE", Purpose: "join", CreatedAt: Epoch, FinishedAt: &finished, Outcome: "passed", Verdict: "TLE", CPUUS: 501_000, TookUS: 1_200_000},
	}
	h.Changes = []gavelapi.HealthChange{{At: Epoch, Language: "python3", What: "set_aside", Reason: "3 faults in a row", Evidence: []gavelapi.HealthEvidence{fault}}}
	h.Speeds = []gavelapi.SpeedPoint{{At: Epoch, Factor: 1.55}, {At: finished, Factor: 1.62}}
	if p, ok := f.hours[name]; ok {
		h.Hours = &p
	}
	return h, nil
}

var errNoWorker = apperr.New(apperr.NotFound, "gavel worker list shows the workers", "there is no such worker")

func (f *Fake) hasWorker(name string) bool {
	for _, w := range f.Fleet {
		if w.Name == name {
			return true
		}
	}
	return false
}

// SetWorkerHours implements httpapi.Service. A Fake takes any text but "bad".
func (f *Fake) SetWorkerHours(ctx context.Context, _ auth.Principal, name string, n gavelapi.NewHours) (gavelapi.PlannedHours, error) {
	p, err := f.setHours(ctx, "SetWorkerHours", name, n)
	p.Worker = name
	return p, err
}

// SetPoolHours implements httpapi.Service.
func (f *Fake) SetPoolHours(ctx context.Context, _ auth.Principal, pool string, n gavelapi.NewHours) (gavelapi.PlannedHours, error) {
	p, err := f.setHours(ctx, "SetPoolHours", "", n)
	p.Pool = pool
	return p, err
}

func (f *Fake) setHours(ctx context.Context, method, worker string, n gavelapi.NewHours) (gavelapi.PlannedHours, error) {
	if err := f.enter(ctx, method); err != nil {
		return gavelapi.PlannedHours{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case worker != "" && !f.hasWorker(worker):
		return gavelapi.PlannedHours{}, errNoWorker
	case n.Hours == "bad":
		return gavelapi.PlannedHours{}, apperr.New(apperr.Invalid, `write for example "daily 01:30-06:00"`, `"bad" is no day`).At("body.hours")
	}
	p := gavelapi.PlannedHours{Worker: worker, Hours: n.Hours, Zone: n.Zone}
	if p.Zone == "" {
		p.Zone = "UTC"
	}
	if n.Hours != "" {
		from, until := Epoch.Add(16*time.Hour), Epoch.Add(21*time.Hour)
		p.Phase, p.From, p.Until = "open", &from, &until
	}
	if f.hours == nil {
		f.hours = map[string]gavelapi.PlannedHours{}
	}
	f.hours[worker] = p
	return p, nil
}
