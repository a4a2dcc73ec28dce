package timeline

import (
	"encoding/json"
	"fmt"
	"time"
)

// The ways, in the order in which a replay goes through them.
const (
	Old     = "old"       // the claim path of the incident
	Fix     = "fix"       // what was shipped then
	Edge    = "edge pull" // of today
	Arbiter = "arbiter"
)

// Offset is a time of the incident. As JSON it is a number of milliseconds.
type Offset time.Duration

// MarshalJSON implements json.Marshaler.
func (o Offset) MarshalJSON() ([]byte, error) {
	return json.Marshal(float64(time.Duration(o).Microseconds()) / 1000)
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *Offset) UnmarshalJSON(raw []byte) error {
	var ms float64
	if err := json.Unmarshal(raw, &ms); err != nil {
		return err
	}
	*o = Offset(ms * float64(time.Millisecond))
	return nil
}

// Replay is an incident acted out in several ways.
type Replay struct {
	Story  string  `json:"story"`
	Title  string  `json:"title"`
	Factor float64 `json:"factor"` // so much quicker than the incident
	// Clock is what clocks showed when it began, since midnight; 0: not known,
	// then times are shown from its beginning.
	Clock Offset `json:"clock_ms"`
	Ways  []Way  `json:"ways"`
	// Why says what is not as it should be; nothing when all is.
	Why []string `json:"why"`
}

// Way is one of the ways.
type Way struct {
	Name string `json:"name"`
	What string `json:"what"`
	// ClaimHeldUp is the longest that the database, or the arbiter, let a worker
	// that was awake wait for the answer to a claim; for a claim that waits for
	// work, from when there was some.
	ClaimHeldUp Offset `json:"claim_held_up_ms"`
	// Ended is when the replay of this way ended.
	Ended       Offset       `json:"ended_ms"`
	Submissions []Submission `json:"submissions"`
	Spans       []Span       `json:"spans"`
	Alarms      []Alarm      `json:"alarms"`
	Events      []Event      `json:"events"`
}

// Submission is one of those that were handed in, before the incident (At is
// negative) or in it.
type Submission struct {
	ID      int64   `json:"id"`
	At      Offset  `json:"at_ms"`
	Claims  []Claim `json:"claims"`
	Judged  bool    `json:"judged"`
	Done    Offset  `json:"done_ms"`
	Verdict string  `json:"verdict"`
}

// Claim is one worker's hold on a submission.
type Claim struct {
	At      Offset `json:"at_ms"`
	Worker  string `json:"worker"`
	Outcome string `json:"outcome"` // completed, or why it came to nothing
}

// Kinds of spans.
const (
	Asleep  = "asleep"
	Failing = "failing"
	HeldUp  = "held_up"
)

// Span is a state of a worker.
type Span struct {
	Who  string `json:"who"`
	Kind string `json:"kind"`
	From Offset `json:"from_ms"`
	To   Offset `json:"to_ms"`
	What string `json:"what"`
}

// Alarm rang, and was cleared unless it still stands at the end.
type Alarm struct {
	Name    string `json:"name"`
	What    string `json:"what"`
	Rang    Offset `json:"rang_ms"`
	Cleared Offset `json:"cleared_ms,omitempty"`
}

// Event is something else worth telling.
type Event struct {
	At   Offset `json:"at_ms"`
	What string `json:"what"`
}

// Raw is a time as it was measured.
func (r *Replay) Raw(o Offset) time.Duration { return time.Duration(float64(o) / r.Factor) }

// Way finds a way by its name.
func (r *Replay) Way(name string) (*Way, bool) {
	for i := range r.Ways {
		if r.Ways[i].Name == name {
			return &r.Ways[i], true
		}
	}
	return nil, false
}

// waited is how long a submission waited for the claim that judged it. A claim
// whose transaction began a moment before the submission's was not waited for.
func (s *Submission) waited(end Offset) Offset {
	if !s.Judged || len(s.Claims) == 0 {
		return end - s.At
	}
	return max(0, s.Claims[len(s.Claims)-1].At-s.At)
}

// Waited is the longest wait of a submission of the incident, from handing in
// to the claim that judged it.
func (w *Way) Waited() (longest Offset) {
	for i := range w.Submissions {
		if s := &w.Submissions[i]; s.At >= 0 {
			longest = max(longest, s.waited(w.Ended))
		}
	}
	return longest
}

// HeldByMatching is the longest that work waited for its first claim while
// worker had nothing in hand: what a claim that waits for work was held up for.
// Work that went to somebody else first went there at once.
func (w *Way) HeldByMatching(worker string) (longest Offset) {
	for i := range w.Submissions {
		s := &w.Submissions[i]
		if s.At < 0 || len(s.Claims) == 0 {
			continue
		}
		first, since := s.Claims[0].At, s.At
		for j := range w.Submissions {
			if o := &w.Submissions[j]; j != i && o.Judged && len(o.Claims) > 0 {
				if last := o.Claims[len(o.Claims)-1]; last.Worker == worker && last.At < first {
					since = max(since, min(o.Done, first))
				}
			}
		}
		longest = max(longest, first-since)
	}
	return longest
}

// Judged counts submissions that were, of all and of the incident's.
func (w *Way) Judged() (judged, all int) {
	for i := range w.Submissions {
		if w.Submissions[i].Judged {
			judged++
		}
	}
	return judged, len(w.Submissions)
}

// alarm finds an alarm that rang.
func (w *Way) alarm(name string) (Alarm, bool) {
	for _, a := range w.Alarms {
		if a.Name == name {
			return a, true
		}
	}
	return Alarm{}, false
}

// clock shows a time as a clock on the wall did, or from the beginning.
func (r *Replay) clock(o Offset) string {
	sign := ""
	if r.Clock == 0 {
		if sign = "+"; time.Duration(o).Round(time.Second) < 0 {
			sign, o = "-", -o
		}
	}
	d := (time.Duration(r.Clock) + time.Duration(o)).Round(time.Second)
	d = (d%(24*time.Hour) + 24*time.Hour) % (24 * time.Hour)
	return sign + fmt.Sprintf("%02d:%02d:%02d", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
}

// Short is a length of time for people.
func Short(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d.Round(time.Second) < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	d = d.Round(time.Second)
	return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
}

// milli is a measured length of time: it may be short.
func milli(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
