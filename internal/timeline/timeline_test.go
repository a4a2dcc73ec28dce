package timeline

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func sec(s float64) Offset { return Offset(s * float64(time.Second)) }

// night is a replay as it should be.
func night() *Replay {
	judged := func(id int64, at, claimed float64, who string) Submission {
		return Submission{ID: id, At: sec(at), Judged: true, Done: sec(claimed + 2), Verdict: "AC", Claims: []Claim{{At: sec(claimed), Worker: who, Outcome: "completed"}}}
	}
	given := judged(2, 5, 15, "server")
	given.Claims = append([]Claim{{At: sec(5.1), Worker: "home", Outcome: "undelivered"}}, given.Claims...)
	return &Replay{
		Story: "five-nights", Title: "home <falls> asleep", Factor: 20, Clock: Offset(time.Hour),
		Ways: []Way{
			{
				Name: Old, What: "one lock & five savepoints", ClaimHeldUp: sec(899), Ended: sec(960),
				Submissions: []Submission{judged(1, -10, -9.6, "home"), judged(2, 5, 900, "server"), judged(3, 180, 903, "server")},
				Spans:       []Span{{"home", Asleep, 0, sec(960), "falls asleep"}, {"server", HeldUp, sec(0.5), sec(899.5), "no answer"}},
				Alarms:      []Alarm{{JudgeDown, "no life", sec(180), sec(960)}},
				Events:      []Event{{sec(900), "the ssh server hangs up"}},
			},
			{
				Name: Arbiter, What: "workers wait at the arbiter", ClaimHeldUp: sec(0.1), Ended: sec(200),
				Submissions: []Submission{judged(1, -10, -9.9, "home"), given},
				Spans:       []Span{{"home", Asleep, 0, sec(200), "falls asleep"}},
			},
		},
	}
}

func expected() []Expectation {
	return []Expectation{
		{Way: Old, ClaimHeldUp: Range{8 * time.Minute, 16 * time.Minute}, Waited: Range{8 * time.Minute, 16 * time.Minute}, Rings: JudgeDown, When: Range{2 * time.Minute, 4 * time.Minute}},
		{Way: Arbiter, ClaimHeldUp: Range{0, time.Second}, Waited: Range{0, 13 * time.Second}},
	}
}

func TestWhatIsAsItShouldBeRaisesNoComplaint(t *testing.T) {
	if why := night().Check(expected(), 0); len(why) > 0 {
		t.Errorf("%q", why)
	}
}

func TestEachThingThatIsWrongIsSaid(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(r *Replay)
		want  string
	}{
		{"nobody was held up in the old way", func(r *Replay) { r.Ways[0].ClaimHeldUp = sec(1) }, "old: the model is not faithful: a claim was held up for 1.0 s at most"},
		{"nobody waited in the old way", func(r *Replay) { r.Ways[0].Submissions = r.Ways[0].Submissions[:1] }, "old: the model is not faithful: a submission waited for 0.0 s"},
		{"held up for too long", func(r *Replay) { r.Ways[0].ClaimHeldUp = sec(3000) }, "50 min 00 s at most"},
		{"a claim was held up in the new way", func(r *Replay) { r.Ways[1].ClaimHeldUp = sec(2) }, "arbiter: a claim was held up for 2.0 s at most, which should be 0.0 s to 1.0 s"},
		{"a submission waited in the new way", func(r *Replay) { r.Ways[1].Submissions[1].Claims[1].At = sec(30) }, "arbiter: a submission waited for 25 s"},
		{"a submission was lost", func(r *Replay) { r.Ways[1].Submissions[1].Judged = false }, "arbiter: 1 of 2 submissions were judged"},
		{"nothing was handed in", func(r *Replay) { r.Ways[1].Submissions = nil }, "arbiter: 0 of 0 submissions"},
		{"another verdict", func(r *Replay) { r.Ways[1].Submissions[0].Verdict = "WA" }, "arbiter: submission 1 became WA"},
		{"no alarm", func(r *Replay) { r.Ways[0].Alarms = nil }, "judge_down did not ring"},
		{"a late alarm", func(r *Replay) { r.Ways[0].Alarms[0].Rang = sec(500) }, "judge_down rang after 8 min 20 s"},
		{"an early alarm", func(r *Replay) { r.Ways[0].Alarms[0].Rang = sec(60) }, "judge_down rang after 60 s"},
		{"a false alarm", func(r *Replay) { r.Ways[1].Alarms = []Alarm{{Name: JudgeDown}} }, "arbiter: the alarm judge_down rang"},
		{"a way is missing", func(r *Replay) { r.Ways = r.Ways[:1] }, "arbiter: it was not replayed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := night()
			c.spoil(r)
			why := r.Check(expected(), 0)
			if !slices.ContainsFunc(why, func(w string) bool { return strings.Contains(w, c.want) }) {
				t.Errorf("%q, want something with %q", why, c.want)
			}
		})
	}
}

func TestAWorkerThatIsBusyHoldsNothingUp(t *testing.T) {
	one := Submission{ID: 1, At: sec(1), Judged: true, Done: sec(20), Claims: []Claim{{sec(1.5), "home", "undelivered"}, {sec(12), "server", "completed"}}}
	two := Submission{ID: 2, At: sec(15), Judged: true, Done: sec(25), Claims: []Claim{{sec(20.3), "server", "completed"}}}
	for _, c := range []struct {
		all  []Submission
		want float64
	}{
		{[]Submission{one}, 0.5},
		{[]Submission{one, two}, 0.5}, // the second waited for the first to be done, and 0.3 s
		{[]Submission{two}, 5.3},
		{[]Submission{{ID: 3, At: sec(-9), Claims: []Claim{{sec(5), "server", "completed"}}}, {ID: 4, At: sec(1)}}, 0},
	} {
		w := Way{Submissions: c.all}
		if got := w.HeldByMatching("server"); got != sec(c.want) {
			t.Errorf("%+v: %v s, want %v s", c.all, time.Duration(got).Seconds(), c.want)
		}
	}
}

func TestSlackWidensTheRanges(t *testing.T) {
	for _, c := range []struct {
		old, arbiter float64
		complaints   int
	}{{479, 2, 0}, {478, 2, 1}, {479, 2.1, 1}} {
		r := night()
		r.Ways[0].ClaimHeldUp, r.Ways[1].ClaimHeldUp = sec(c.old), sec(c.arbiter)
		if why := r.Check(expected(), time.Second); len(why) != c.complaints {
			t.Errorf("%+v: %q", c, why)
		}
	}
}

func TestTheTableShowsBothTimes(t *testing.T) {
	var b strings.Builder
	if err := night().WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	want := `WAY      CLAIM HELD UP         SUBMISSION WAITED     JUDGED  LOST  ALARM
old      14 min 59 s (45.0 s)  14 min 55 s (44.8 s)  3 of 3  0     01:03:00
arbiter  0.1 s (5 ms)          10 s (500 ms)         2 of 2  0     none
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

func TestTheTextTellsWhatHappenedInOrder(t *testing.T) {
	r := night()
	r.Ways[1].Submissions = append(r.Ways[1].Submissions, Submission{ID: 9, At: sec(100)})
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	want := `old: one lock & five savepoints
  00:59:50  submission 1, claimed by home after 0.4 s
  01:00:00  home: falls asleep
  01:00:01  server: no answer, for 14 min 59 s
  01:00:05  submission 2, claimed by server after 14 min 55 s
  01:03:00  submission 3, claimed by server after 12 min 03 s
  01:03:00  ALARM judge_down: no life
  01:15:00  the ssh server hangs up
  01:16:00  judge_down cleared after 13 min 00 s

arbiter: workers wait at the arbiter
  00:59:50  submission 1, claimed by home after 0.1 s
  01:00:00  home: falls asleep
  01:00:05  submission 2, claimed by home after 0.1 s, undelivered, then by
            server after 9.9 s
  01:01:40  submission 9, not judged after 100 s
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
	r.Clock = 0 // a sign is shown as well
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if len(line) > 81 { // with its end
			t.Errorf("longer than a terminal is wide: %s", line)
		}
	}
}

// The drawing is read back as XML: it is well formed, nothing lies outside of
// it, and everything that was seen is in it.
func TestTheDrawingShowsEverything(t *testing.T) {
	r := night()
	var b strings.Builder
	if err := r.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	elements := map[string]int{}
	var texts strings.Builder
	for d := xml.NewDecoder(strings.NewReader(b.String())); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, b.String())
		}
		switch e := token.(type) {
		case xml.StartElement:
			elements[e.Name.Local]++
			for _, a := range e.Attr {
				if strings.Contains(a.Value, "NaN") || strings.HasPrefix(a.Value, "-") {
					t.Errorf("%s of %s is %s", a.Name.Local, e.Name.Local, a.Value)
				}
			}
		case xml.CharData:
			texts.Write(e)
		}
	}
	claims := 0
	for _, w := range r.Ways {
		for _, s := range w.Submissions {
			claims += len(s.Claims)
		}
	}
	if got := elements["circle"] - 3; got != claims { // three in the legend
		t.Errorf("%d dots for %d claims", got, claims)
	}
	for _, want := range []string{
		"five-nights: home <falls> asleep", "held up for 14 min 59 s", "asleep", "judge_down 01:03:00", "none", "01:15", "arbiter",
		"a claim was held up for 0.1 s, a submission waited for 10 s", "20 times as fast",
	} {
		if !strings.Contains(texts.String(), want) {
			t.Errorf("no %q in\n%s", want, texts.String())
		}
	}
}

func TestNothingIsDrawnOfAReplayThatWasInterrupted(t *testing.T) {
	r := &Replay{Story: "sep-17", Factor: 20}
	var b strings.Builder
	if err := errors.Join(r.WriteSVG(&b), r.WriteTable(&b), r.WriteText(&b)); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "NaN") {
		t.Error(b.String())
	}
}

func TestJSONHasMilliseconds(t *testing.T) {
	raw, err := json.Marshal(night())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"claim_held_up_ms":899000`, `"clock_ms":3600000`, `"at_ms":-10000`, `"rang_ms":180000`} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("no %s in %s", want, raw)
		}
	}
	var back Replay
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(night(), &back); diff != "" {
		t.Error(diff)
	}
}

// Minutes since the beginning must not look like a time of the day, or like seconds.
func TestLabelsOfTheAxisSayWhatTheyCount(t *testing.T) {
	at := Offset(5 * time.Minute)
	if got := (&Replay{}).label(at); got != "+5 min" {
		t.Errorf("since the beginning: %q", got)
	}
	if got := (&Replay{Clock: Offset(time.Hour)}).label(at); got != "01:05" {
		t.Errorf("of the day: %q", got)
	}
}

func TestLengthsOfTimeArePutForPeople(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0.0 s", 1400 * time.Millisecond: "1.4 s", 10 * time.Second: "10 s", 119 * time.Second: "119 s",
		119600 * time.Millisecond: "2 min 00 s", 44*time.Minute + 3*time.Second: "44 min 03 s",
	} {
		if got := Short(d); got != want {
			t.Errorf("Short(%v) = %q, want %q", d, got, want)
		}
	}
}
