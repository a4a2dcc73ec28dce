package whatif

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Worker is one machine of a fleet.
type Worker struct {
	Name      string
	Pool      string
	Rank      int
	Slots     int
	Languages []string
	Memory    int64 // bytes
	Speed     float64
	RoundTrip time.Duration // to the database or the arbiter
	Away      []Interval    // when it sleeps, suddenly and with all that it holds
}

// Interval is a time of absence, from and to since the beginning of the trace.
type Interval struct{ From, To time.Duration }

var fleetColumns = []string{"name", "pool", "rank", "slots", "languages", "memory_mib", "speed", "round_trip_ms", "away"}

// ReadFleet reads a fleet: CSV with languages separated by blanks, and absences
// such as "60m-480m" by blanks, too.
func ReadFleet(r io.Reader) ([]Worker, error) {
	var fleet []Worker
	err := readCSV(r, fleetColumns, func(get func(string) string, number func(string) int64, wrong func(column, format string, args ...any)) {
		w := Worker{
			Name: get("name"), Pool: get("pool"), Rank: int(number("rank")), Slots: int(number("slots")), Languages: strings.Fields(get("languages")),
			Memory: number("memory_mib") << 20, RoundTrip: time.Duration(number("round_trip_ms")) * time.Millisecond,
		}
		var err error
		if w.Speed, err = strconv.ParseFloat(get("speed"), 64); err != nil || !(w.Speed > 0 && w.Speed <= 1000) { // NaN is neither
			wrong("speed", "is not a number above 0 and up to 1000")
		}
		if slices.ContainsFunc(fleet, func(o Worker) bool { return o.Name == w.Name }) {
			wrong("name", "is that of another worker, too")
		}
		if w.Slots == 0 {
			wrong("slots", "is not at least 1")
		}
		for text := range strings.FieldsSeq(get("away")) {
			from, to, ok := strings.Cut(text, "-")
			a, errA := time.ParseDuration(from)
			b, errB := time.ParseDuration(to)
			if !ok || errA != nil || errB != nil || b <= a {
				wrong("away", "is not like 60m-480m")
			}
			w.Away = append(w.Away, Interval{a, b})
		}
		fleet = append(fleet, w)
	})
	if err == nil && len(fleet) == 0 {
		err = fmt.Errorf("the fleet is empty")
	}
	return fleet, err
}

// Fleets are the ones that come with the program.
func Fleets() []string { return []string{"home-and-cloud", "home-sleeps", "school"} }

// Fleet is one of them.
func Fleet(name string) ([]Worker, bool) {
	all := []string{"cpp17", "cpp20", "python3", "java"}
	home := Worker{Name: "home", Pool: "home", Rank: 1, Slots: 4, Languages: all, Memory: 8 << 30, Speed: 1.3, RoundTrip: 30 * time.Millisecond}
	cloud := Worker{Name: "cloud", Pool: "cloud", Rank: 10, Slots: 1, Languages: all, Memory: 2 << 30, Speed: 0.8, RoundTrip: time.Millisecond}
	switch name {
	case "home-and-cloud":
		return []Worker{home, cloud}, true
	case "home-sleeps":
		for begin := time.Duration(0); begin < nights*night; begin += night {
			home.Away = append(home.Away, Interval{begin + time.Hour, begin + night})
		}
		return []Worker{home, cloud}, true
	case "school":
		var fleet []Worker
		for i := range 4 {
			w := home
			w.Name, w.Pool, w.Slots, w.Speed, w.RoundTrip = fmt.Sprintf("lab-%d", i+1), "lab", 2, 1, 2*time.Millisecond
			fleet = append(fleet, w)
		}
		return append(fleet, cloud), true
	}
	return nil, false
}

func (w *Worker) offers(language string) bool {
	return language == "" || slices.Contains(w.Languages, language)
}

// awayAt says whether it sleeps at a time, and until when.
func (w *Worker) awayAt(t time.Duration) (until time.Duration, away bool) {
	for _, a := range w.Away {
		if a.From <= t && t < a.To {
			return a.To, true
		}
	}
	return 0, false
}
