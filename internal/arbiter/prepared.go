package arbiter

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// preparation reads the newest preparation of a problem, or the one of an id;
// nil when there is none.
func (a *Arbiter) preparation(ctx context.Context, name string, id int64) (*gavelapi.Preparation, *storedb.LatestPreparationRow, error) {
	r, err := a.q.LatestPreparation(ctx, a.db.Pool, &storedb.LatestPreparationParams{Problem: name, ID: id})
	if store.IsNoRows(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, unavailable(err, "read a preparation")
	}
	p := &gavelapi.Preparation{
		ID: r.ID, Problem: r.Problem, PackageDigest: r.PackageDigest, Verify: r.Verify, State: r.State, Message: r.Message,
		Steps: int(r.Steps), StepsDone: int(r.StepsDone), CreatedAt: r.CreatedAt.UTC(), FinishedAt: utc(r.FinishedAt),
	}
	if r.Version != nil {
		p.Version = int(*r.Version)
	}
	if r.Fault != nil {
		if err := json.Unmarshal(r.Fault, &p.Fault); err != nil {
			return nil, nil, fmt.Errorf("stored preparation %d: %w", r.ID, err)
		}
	}
	return p, r, nil
}

// PreparationReport implements httpapi.Service.
func (a *Arbiter) PreparationReport(ctx context.Context, name string, id int64, wait time.Duration) (gavelapi.PreparationReport, error) {
	changed, stop := a.watch.on(preparations)
	defer stop()
	first, err := a.readReport(ctx, name, id)
	if err != nil || wait <= 0 || first.State != gavelapi.PreparationPreparing {
		return first, err
	}
	return awaitChange(ctx, a, first, changed, wait,
		func() (gavelapi.PreparationReport, error) { return a.readReport(ctx, name, first.ID) },
		func(now gavelapi.PreparationReport) bool {
			return now.State != first.State || now.StepsDone != first.StepsDone || now.Worker != first.Worker
		})
}

func (a *Arbiter) readReport(ctx context.Context, name string, id int64) (gavelapi.PreparationReport, error) {
	p, row, err := a.preparation(ctx, name, id)
	if err != nil {
		return gavelapi.PreparationReport{}, err
	}
	if p == nil {
		return gavelapi.PreparationReport{}, apperr.New(apperr.NotFound, "gavel problem list shows the problems; the reports of the newest imports are kept",
			"there is no such report of a problem%s", apperr.Named(name))
	}
	m, err := readManifest(row.Manifest)
	if err != nil {
		return gavelapi.PreparationReport{}, err
	}
	steps, err := a.q.StepsOfPreparation(ctx, a.db.Pool, p.ID)
	if err != nil {
		return gavelapi.PreparationReport{}, unavailable(err, "read the steps of a preparation")
	}
	rep := gavelapi.PreparationReport{Preparation: *p, Rows: []gavelapi.ReportRow{}, Warnings: m.Warnings}
	for _, s := range steps {
		rows, err := a.rowsOf(ctx, s, &rep.Preparation)
		if err != nil {
			return rep, err
		}
		rep.Rows = append(rep.Rows, rows...)
	}
	return rep, nil
}

// rowsOf are the rows of a step, and what it says of the whole.
func (a *Arbiter) rowsOf(ctx context.Context, s *storedb.StepsOfPreparationRow, p *gavelapi.Preparation) ([]gavelapi.ReportRow, error) {
	one := gavelapi.ReportRow{Worker: knownAs(s.Worker), Finding: gavelapi.Finding{Step: s.Kind, What: s.Path}}
	switch s.State {
	case "done":
		var findings []gavelapi.Finding
		if err := json.Unmarshal(s.Findings, &findings); err != nil {
			return nil, fmt.Errorf("stored step %d: %w", s.ID, err)
		}
		rows := make([]gavelapi.ReportRow, len(findings))
		for i, f := range findings {
			rows[i] = gavelapi.ReportRow{Finding: f, Worker: s.Worker}
		}
		return rows, nil
	case "system_error":
		var fault gavelapi.Fault
		if err := json.Unmarshal(s.Fault, &fault); err != nil {
			return nil, fmt.Errorf("stored step %d: %w", s.ID, err)
		}
		one.Outcome, one.Detail = gavelapi.FindingFault, fault.Blame+": "+fault.Message
	case "skipped":
		one.Outcome = gavelapi.FindingSkipped
	default:
		one.Outcome = gavelapi.FindingWaiting
		if s.State == "open" && s.JobState != nil {
			var reason string
			reason, _ = a.memoryOf(ctx, *s.JobState, s.JobID, s.LeaseToken, s.Worker)
			if *s.JobState == gavelapi.StatePending {
				one.Detail = reason
				if p.Waiting == "" {
					p.Waiting = reason
				}
			} else if p.Worker == "" {
				p.Worker = s.Worker
			}
		}
	}
	return []gavelapi.ReportRow{one}, nil
}

// notPublished says why a problem that has no version yet takes no submissions;
// nil when nothing is known of it either.
func (a *Arbiter) notPublished(ctx context.Context, name string) error {
	p, _, err := a.preparation(ctx, name, 0)
	switch {
	case err != nil || p == nil:
		return err
	case p.State == gavelapi.PreparationPreparing:
		return apperr.New(apperr.Conflict, "submit when it is published; gavel problem report shows how far it is",
			"problem%s is not published yet: it is being prepared (%d of %d steps are done)", apperr.Named(name), p.StepsDone, p.Steps)
	case p.State == gavelapi.PreparationFailed:
		return apperr.New(apperr.Conflict, "gavel problem report says what was found; correct the package and import it again",
			"problem%s is not published: its last version failed: %s", apperr.Named(name), p.Message)
	}
	return nil
}
