package apitest

import (
	"context"
	"encoding/json"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
)

// alarms are those of the fake: one open, one ended.
func alarms() []gavelapi.Alarm {
	ended := Epoch.Add(12 * time.Minute)
	return []gavelapi.Alarm{
		{
			ID: 2, Kind: "no_capable_worker", Subject: "java", Severity: "page", Summary: "3 jobs in java wait and no worker online can do them: it does not offer java",
			Evidence: json.RawMessage(`{"language":"java","jobs":3}`), Since: Epoch.Add(time.Hour), StartedAt: Epoch.Add(time.Hour + 10*time.Second),
		},
		{
			ID: 1, Kind: "judge_down", Severity: "page", Summary: "9 jobs wait and nobody is working; 0 workers are online, 0 of them away",
			Evidence: json.RawMessage(`{"jobs":9,"workers_online":0}`), Since: Epoch, StartedAt: Epoch.Add(time.Minute), EndedAt: &ended, LastedMS: 720000,
		},
	}
}

// Alarms implements httpapi.Service.
func (f *Fake) Alarms(ctx context.Context, open bool, kind, cursor string, limit int) (gavelapi.AlarmList, error) {
	if err := f.enter(ctx, "Alarms"); err != nil {
		return gavelapi.AlarmList{}, err
	}
	list := []gavelapi.Alarm{}
	for _, al := range alarms() {
		if (!open || al.EndedAt == nil) && (kind == "" || al.Kind == kind) {
			list = append(list, al)
		}
	}
	items, next, err := page(list, cursor, limit)
	return gavelapi.AlarmList{Alarms: items, Next: next}, err
}

// Alarm implements httpapi.Service.
func (f *Fake) Alarm(ctx context.Context, id int64) (gavelapi.Alarm, error) {
	if err := f.enter(ctx, "Alarm"); err != nil {
		return gavelapi.Alarm{}, err
	}
	for _, al := range alarms() {
		if al.ID == id {
			return al, nil
		}
	}
	return gavelapi.Alarm{}, apperr.New(apperr.NotFound, "gavel alarm list --all shows them", "there is no alarm %d", id)
}
