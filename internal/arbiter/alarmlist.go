package arbiter

import (
	"context"
	"math"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/alarm"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// Alarms implements httpapi.Service.
func (a *Arbiter) Alarms(ctx context.Context, open bool, kind, cursor string, limit int) (gavelapi.AlarmList, error) {
	list := gavelapi.AlarmList{Alarms: []gavelapi.Alarm{}}
	before, err := readCursor(cursor, math.MaxInt64)
	if err != nil {
		return list, err
	}
	if kind != "" && a.cfg.Alarms.Rules()[alarm.Kind(kind)].Severity == "" {
		return list, apperr.New(apperr.Invalid, "the kinds are in docs/reference/alarms.md, e.g. judge_down", "there is no kind of alarm%s", apperr.Named(kind)).At("query.kind")
	}
	rows, err := a.q.ListAlarms(ctx, a.db.Pool, &storedb.ListAlarmsParams{Before: before, OnlyOpen: open, Kind: kind, Page: int32(limit) + 1})
	if err != nil {
		return list, unavailable(err, "list alarms")
	}
	if len(rows) > limit {
		rows = rows[:limit]
		list.Next = writeCursor(rows[limit-1].ID)
	}
	for _, r := range rows {
		list.Alarms = append(list.Alarms, wireAlarm(r))
	}
	return list, nil
}

// Alarm implements httpapi.Service.
func (a *Arbiter) Alarm(ctx context.Context, id int64) (gavelapi.Alarm, error) {
	r, err := a.q.AlarmByID(ctx, a.db.Pool, id)
	if store.IsNoRows(err) {
		return gavelapi.Alarm{}, apperr.New(apperr.NotFound, "gavel alarm list --all shows them", "there is no alarm %d", id)
	}
	if err != nil {
		return gavelapi.Alarm{}, unavailable(err, "read an alarm")
	}
	return wireAlarm(r), nil
}

func wireAlarm(r *storedb.Alarm) gavelapi.Alarm {
	al := gavelapi.Alarm{
		ID: r.ID, Kind: r.Kind, Subject: r.Subject, Severity: r.Severity, Summary: r.Summary, Evidence: r.Evidence,
		Occurrences: r.Occurrences, Since: r.Since.UTC(), StartedAt: r.StartedAt.UTC(), EndedAt: utc(r.EndedAt),
	}
	if al.EndedAt != nil {
		al.LastedMS = al.EndedAt.Sub(al.Since).Milliseconds()
	}
	return al
}
