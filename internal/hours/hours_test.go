package hours

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func plan(t *testing.T, text, zone string) Plan {
	t.Helper()
	p, err := Parse(text, zone)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	when, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

func TestPlansAreReadInAllTheirForms(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{" \n ; ", ""},
		{"daily 01:30-06:00", "daily 01:30-06:00"},
		{"Wednesday 04:00-04:30", "Wed 04:00-04:30"},
		{"DAILY 1:30-6:00", "daily 01:30-06:00"},
		{"Mon-Fri 22:00-06:00, Sat,Sun 02:00-09:00", "Mon,Tue,Wed,Thu,Fri 22:00-06:00; Sat,Sun 02:00-09:00"},
		{"Fri-Mon 00:00-24:00", "Mon,Fri,Sat,Sun 00:00-24:00"},
		{"daily 01:00-02:00 03:00-04:00", "daily 01:00-02:00; daily 03:00-04:00"},
		{"tues 12:00:05-12:00:15", "Tue 12:00:05-12:00:15"},
		{"daily 01:30-06:00\nWed 04:00-04:30", "daily 01:30-06:00; Wed 04:00-04:30"},
	} {
		got, err := Parse(c.text, "Europe/Berlin")
		if err != nil || got.String() != c.want {
			t.Errorf("%q is read as %q, %v; want %q", c.text, got.String(), err, c.want)
		}
		again, err := Parse(got.String(), got.Zone())
		if err != nil || again.String() != got.String() {
			t.Errorf("%q is not read again as itself: %q, %v", got, again, err)
		}
	}
}

func TestABadPlanSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct{ text, zone, want string }{
		{"01:30-06:00", "", "has no day"},
		{"daily", "", "has no times"},
		{"daily 01:30", "", "has no end"},
		{"daily 01:30-25:00", "", `"25:00" is no time of day`},
		{"daily 24:00-06:00", "", `"24:00" is no time of day`},
		{"daily 01:60-06:00", "", `"01:60" is no time of day`},
		{"daily 01:30-06:00:00:00", "", "is no time of day"},
		{"daily +1:30-06:00", "", "is no time of day"},
		{"daily 06:00-06:00", "", "ends when it begins"},
		{"Someday 01:30-06:00", "", `"Someday" is no day`},
		{"Mon-Xyz 01:30-06:00", "", `"Xyz" is no day`},
		{"M 01:30-06:00", "", `"M" is no day`},
		{"daily 01:30-06:00", "Mars/Olympus", `"Mars/Olympus" is no time zone`},
		{"daily 01:30-06:00", "Local", "is no time zone"},
		{strings.Repeat("daily 01:30-06:00;", 33), "", "at most 32"},
	} {
		_, err := Parse(c.text, c.zone)
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) || e.Hint == "" {
			t.Errorf("%q in %q: %v, want something with %q and a hint", c.text, c.zone, err, c.want)
		}
	}
}

func TestAPlanSaysWhenItIsActiveAndWhatComesNext(t *testing.T) {
	for _, c := range []struct {
		name, text, zone, at string
		active, next         string // "FROM TO" in RFC 3339, "" for none
	}{
		{"inside", "daily 01:30-06:00", "UTC", "2026-11-30T03:00:00Z", "2026-11-30T01:30:00Z 2026-11-30T06:00:00Z", "2026-12-01T01:30:00Z 2026-12-01T06:00:00Z"},
		{"the beginning is inside", "daily 01:30-06:00", "UTC", "2026-11-30T01:30:00Z", "2026-11-30T01:30:00Z 2026-11-30T06:00:00Z", "2026-12-01T01:30:00Z 2026-12-01T06:00:00Z"},
		{"the end is not", "daily 01:30-06:00", "UTC", "2026-11-30T06:00:00Z", "", "2026-12-01T01:30:00Z 2026-12-01T06:00:00Z"},
		{"once a week", "Wednesday 04:00-04:30", "UTC", "2026-12-02T04:30:00Z", "", "2026-12-09T04:00:00Z 2026-12-09T04:30:00Z"},
		{"across midnight, before it", "Mon 22:00-06:00", "UTC", "2026-11-30T23:00:00Z", "2026-11-30T22:00:00Z 2026-12-01T06:00:00Z", "2026-12-07T22:00:00Z 2026-12-08T06:00:00Z"},
		{"across midnight, after it", "Mon 22:00-06:00", "UTC", "2026-12-01T05:59:59Z", "2026-11-30T22:00:00Z 2026-12-01T06:00:00Z", "2026-12-07T22:00:00Z 2026-12-08T06:00:00Z"},
		{"windows that touch are one", "daily 01:00-02:00 02:00-03:00", "UTC", "2026-11-30T01:30:00Z", "2026-11-30T01:00:00Z 2026-11-30T03:00:00Z", "2026-12-01T01:00:00Z 2026-12-01T03:00:00Z"},
		{"in another zone", "daily 01:30-06:00", "Asia/Shanghai", "2026-11-30T18:00:00Z", "2026-11-30T17:30:00Z 2026-11-30T22:00:00Z", "2026-12-01T17:30:00Z 2026-12-01T22:00:00Z"},
		{"over a year's end", "daily 23:00-01:00", "UTC", "2026-12-31T23:30:00Z", "2026-12-31T23:00:00Z 2027-01-01T01:00:00Z", "2027-01-01T23:00:00Z 2027-01-02T01:00:00Z"},
		// Clocks go from 02:00 to 03:00 on 29 March 2026 in Berlin (01:00 UTC).
		{"an hour is skipped inside", "daily 01:30-06:00", "Europe/Berlin", "2026-03-29T01:30:00Z", "2026-03-29T00:30:00Z 2026-03-29T04:00:00Z", "2026-03-29T23:30:00Z 2026-03-30T04:00:00Z"},
		{"it begins in the skipped hour", "daily 02:30-06:00", "Europe/Berlin", "2026-03-29T01:10:00Z", "2026-03-29T01:00:00Z 2026-03-29T04:00:00Z", "2026-03-30T00:30:00Z 2026-03-30T04:00:00Z"},
		{"all of it is skipped", "daily 02:10-02:50", "Europe/Berlin", "2026-03-29T00:30:00Z", "", "2026-03-30T00:10:00Z 2026-03-30T00:50:00Z"},
		// Clocks go from 03:00 back to 02:00 on 25 October 2026 (01:00 UTC).
		{"an hour comes twice, and it begins with the first", "daily 02:30-06:00", "Europe/Berlin", "2026-10-25T00:40:00Z", "2026-10-25T00:30:00Z 2026-10-25T05:00:00Z", "2026-10-26T01:30:00Z 2026-10-26T05:00:00Z"},
		{"an hour comes twice, and it ends with the second", "daily 01:30-02:30", "Europe/Berlin", "2026-10-25T01:20:00Z", "2026-10-24T23:30:00Z 2026-10-25T01:30:00Z", "2026-10-26T00:30:00Z 2026-10-26T01:30:00Z"},
		{"no plan", "", "UTC", "2026-11-30T03:00:00Z", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, when := plan(t, c.text, c.zone), at(t, c.at)
			say := func(s Span, ok bool) string {
				if !ok {
					return ""
				}
				return s.From.UTC().Format(time.RFC3339) + " " + s.To.UTC().Format(time.RFC3339)
			}
			if got := say(p.Active(when)); got != c.active {
				t.Errorf("active %q, want %q", got, c.active)
			}
			if got := say(p.Next(when)); got != c.next {
				t.Errorf("next %q, want %q", got, c.next)
			}
		})
	}
}

func TestBeforeAnAbsenceNothingNewIsBegun(t *testing.T) {
	p := plan(t, "daily 01:30-06:00", "Asia/Shanghai")
	for _, c := range []struct{ at, want string }{
		{"2026-11-30T17:19:59Z", ""},
		{"2026-11-30T17:20:00Z", "planned sleep from 01:30 to 06:00"},
		{"2026-11-30T17:30:00Z", "planned sleep until 06:00"},
		{"2026-11-30T21:59:59Z", "planned sleep until 06:00"},
		{"2026-11-30T22:00:00Z", ""},
	} {
		if got := p.Reason(at(t, c.at), 10*time.Minute); got != c.want {
			t.Errorf("at %s: %q, want %q", c.at, got, c.want)
		}
	}
	long := plan(t, "Fri 18:00-24:00; Sat,Sun 00:00-24:00; Mon 00:00-08:00", "UTC")
	if got, want := long.Reason(at(t, "2026-12-04T19:00:00Z"), 0), "planned sleep until Mon 08:00"; got != want {
		t.Errorf("a whole weekend: %q, want %q", got, want)
	}
}

// For any plan, zone and instant: the active absence holds the instant, the
// next one begins after it and not inside the active one, both agree with the
// wall clock away from its changes, and At agrees with both.
func TestAnyPlanAgreesWithTheWallClock(t *testing.T) {
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Asia/Shanghai", "Australia/Lord_Howe", "Asia/Kathmandu", "America/St_Johns"}
	rapid.Check(t, func(t *rapid.T) {
		zone := rapid.SampledFrom(zones).Draw(t, "zone")
		p := Plan{name: zone}
		p.zone, _ = time.LoadLocation(zone)
		for range rapid.IntRange(1, 3).Draw(t, "windows") {
			w := window{from: rapid.IntRange(0, 1439).Draw(t, "from") * 60, to: rapid.IntRange(1, 1440).Draw(t, "to") * 60}
			for d := range w.days {
				w.days[d] = rapid.Bool().Draw(t, "day")
			}
			if w.from != w.to {
				p.windows = append(p.windows, w)
			}
		}
		now := time.Unix(rapid.Int64Range(1_700_000_000, 1_900_000_000).Draw(t, "at"), 0)
		active, asleep := p.Active(now)
		if asleep && (now.Before(active.From) || !now.Before(active.To)) {
			t.Fatalf("%v is said to lie in %v", now, active)
		}
		next, more := p.Next(now)
		if more && (!next.From.After(now) || !next.From.Before(next.To) || asleep && !next.From.After(active.To)) {
			t.Fatalf("after %v comes %v, active %v", now, next, active)
		}
		if phase, _ := p.At(now, time.Minute); (phase == Asleep) != asleep {
			t.Fatalf("phase %q, active %v", phase, asleep)
		}
		_, before := now.Add(-26 * time.Hour).In(p.zone).Zone()
		_, after := now.Add(26 * time.Hour).In(p.zone).Zone()
		if before != after {
			return // a change of the clock is near; the table has those
		}
		local := now.In(p.zone)
		second := local.Hour()*3600 + local.Minute()*60 + local.Second()
		today, yesterday := local.Weekday(), (local.Weekday()+6)%7
		want := false
		for _, w := range p.windows {
			if w.to > w.from {
				want = want || w.days[today] && second >= w.from && second < w.to
			} else {
				want = want || w.days[today] && second >= w.from || w.days[yesterday] && second < w.to
			}
		}
		if want != asleep {
			t.Fatalf("%v: the wall clock says %v, the plan %v", local, want, asleep)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("Mon-Fri 22:00-06:00, Sat,Sun 02:00-09:00", "Europe/Berlin")
	f.Add("daily 01:30-24:00;Wed 1:2-3:4:5", "")
	f.Fuzz(func(t *testing.T, text, zone string) {
		p, err := Parse(text, zone)
		if err != nil {
			return
		}
		again, err := Parse(p.String(), p.Zone())
		if err != nil || again.String() != p.String() {
			t.Errorf("%q is written as %q, which is read as %q, %v", text, p, again, err)
		}
		p.Reason(time.Unix(1_800_000_000, 0), time.Hour)
	})
}
