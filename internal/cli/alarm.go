package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
)

// AlarmCmd is `gavel alarm`.
type AlarmCmd struct {
	List AlarmListCmd `cmd:"" help:"List alarms that are open, newest first."`
	Show AlarmShowCmd `cmd:"" help:"Show one with its evidence."`
}

// AlarmListCmd is `gavel alarm list`.
type AlarmListCmd struct {
	All  bool   `help:"Also those that have ended."`
	Kind string `placeholder:"KIND" help:"Only of this kind, e.g. judge_down."`
	pageLimit
}

// Run implements kong's command.
func (cmd *AlarmListCmd) Run(app *App) error {
	return withArbiter(app, func(c *client.Client) (err error) {
		type A = gavelapi.Alarm
		var list gavelapi.AlarmList
		list.Alarms, list.Next, err = pages(app, cmd.pageLimit, func(cursor string, limit int) ([]A, string, error) {
			page, err := c.AlarmList(app.Ctx, !cmd.All, cmd.Kind, cursor, limit)
			if err != nil {
				return nil, "", err
			}
			return page.Alarms, page.Next, nil
		})
		if err != nil {
			return err
		}
		return printItems(app, list.Alarms, list, func(al A) string { return fmt.Sprint(al.ID) }, []column[A]{
			{name: "ALARM", right: true, cell: func(al A) cell { return number(al.ID) }},
			{name: "SEVERITY", cell: severity},
			{name: "KIND", cell: func(al A) cell { return text(al.Kind) }},
			{name: "SUBJECT", flex: 10, cell: func(al A) cell { return text(orDash(al.Subject)) }},
			{name: "SINCE (UTC)", cell: func(al A) cell { return text(instant(al.Since)) }},
			{name: "ENDED AFTER", cell: func(al A) cell { return text(orDash(lasted(al))) }},
			{name: "SUMMARY", flex: 20, cell: func(al A) cell { return text(al.Summary) }},
		})
	})
}

func severity(al gavelapi.Alarm) cell {
	switch {
	case al.EndedAt != nil:
		return shade(al.Severity, dim)
	case al.Severity == "page":
		return shade(al.Severity, red)
	case al.Severity == "ticket":
		return shade(al.Severity, yellow)
	}
	return text(al.Severity)
}

// lasted is how long an alarm took that has ended.
func lasted(al gavelapi.Alarm) string {
	if al.EndedAt == nil {
		return ""
	}
	return took(time.Duration(al.LastedMS) * time.Millisecond)
}

// AlarmShowCmd is `gavel alarm show`.
type AlarmShowCmd struct {
	ID int64 `arg:"" help:"Number of the alarm."`
}

// Run implements kong's command.
func (cmd *AlarmShowCmd) Run(app *App) error {
	return withArbiter(app, func(c *client.Client) error {
		al, err := c.AlarmGet(app.Ctx, cmd.ID)
		if err != nil {
			return err
		}
		if app.machine() {
			return printItems(app, []gavelapi.Alarm{*al}, al, func(al gavelapi.Alarm) string { return fmt.Sprint(al.ID) }, nil)
		}
		rows := [][2]string{{"summary", al.Summary}, {"severity", al.Severity}, {"subject", orDash(al.Subject)}}
		if al.Occurrences > 0 {
			rows = append(rows, [2]string{"times", fmt.Sprint(al.Occurrences)})
		}
		rows = append(rows, [2]string{"since", instant(al.Since) + " UTC"}, [2]string{"started", instant(al.StartedAt) + " UTC"})
		if al.EndedAt != nil {
			rows = append(rows, [2]string{"ended", instant(*al.EndedAt) + " UTC, after " + lasted(*al)})
		}
		var evidence map[string]any
		if err := json.Unmarshal(al.Evidence, &evidence); err == nil { // a newer arbiter may say it otherwise; -o json has it all
			for _, k := range slices.Sorted(maps.Keys(evidence)) {
				rows = append(rows, [2]string{"evidence", k + ": " + evidenceText(evidence[k])})
			}
		}
		return app.sheet(fmt.Sprintf("alarm %d: %s", al.ID, al.Kind), rows)
	})
}

// evidenceText is a value of JSON without the quotes of a text.
func evidenceText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}
