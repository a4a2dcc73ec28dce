package health

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// Sample is the CPU time of one AC probe.
type Sample struct {
	At    time.Time `json:"at"`
	CPUUS int64     `json:"cpu_us"`
}

// Speed is a worker's speed factor at some time: 1 is the fleet's median, 2
// takes twice as long.
type Speed struct {
	At     time.Time `json:"at"`
	Factor float64   `json:"factor"`
}

// Bounds of the history, and how much of it is recent.
const (
	maxSamples   = 24 // a language
	maxSpeeds    = 200
	recent       = 3
	driftSamples = 2 * recent // below that, nothing is said about drift
)

// sample notes a time and what follows from it.
func (f *Fleet) sample(id int64, language string, cpu time.Duration, at time.Time) []Change {
	s := f.worker(id)
	before, _ := f.Drift(id)
	if s.Samples == nil {
		s.Samples = map[string][]Sample{}
	}
	row := append(s.Samples[language], Sample{at, cpu.Microseconds()})
	if len(row) > maxSamples {
		row = slices.Delete(row, 0, len(row)-maxSamples)
	}
	s.Samples[language] = row
	f.measure(language)
	s.Speeds = append(s.Speeds, Speed{at, f.Factor(id)})
	if len(s.Speeds) > maxSpeeds {
		s.Speeds = slices.Delete(s.Speeds, 0, len(s.Speeds)-maxSpeeds)
	}
	after, drifts := f.Drift(id)
	if !drifts || math.Abs(before-1) > f.settings.Drift {
		return nil // said before
	}
	return []Change{{WorkerID: id, What: Drifted, Reason: fmt.Sprintf("its own times have changed by %+.0f %%", (after-1)*100)}}
}

// measure brings the fleet's median of a language up to date.
func (f *Fleet) measure(language string) {
	var all []float64
	for _, s := range f.workers {
		if row := s.Samples[language]; len(row) > 0 {
			all = append(all, median(last(row, recent)))
		}
	}
	f.medians[language] = middle(all)
}

// Factor is how long a worker takes, measured by the fleet: 1 is the median of
// those that offer the same languages. It is 1 while nothing is measured.
func (f *Fleet) Factor(id int64) float64 {
	s := f.workers[id]
	if s == nil {
		return 1
	}
	var ratios []float64
	for _, l := range slices.Sorted(maps.Keys(s.Samples)) {
		if fleet := f.medians[l]; fleet > 0 {
			ratios = append(ratios, median(last(s.Samples[l], recent))/fleet)
		}
	}
	if len(ratios) == 0 {
		return 1
	}
	return middle(ratios)
}

// Drift compares a worker's recent times with its own earlier ones: 1 is no
// change. It says whether that is worth a word.
func (f *Fleet) Drift(id int64) (ratio float64, drifts bool) {
	s := f.workers[id]
	if s == nil {
		return 1, false
	}
	var ratios []float64
	for _, l := range slices.Sorted(maps.Keys(s.Samples)) {
		row := s.Samples[l]
		if len(row) < driftSamples {
			continue
		}
		if old := median(row[:len(row)-recent]); old > 0 {
			ratios = append(ratios, median(last(row, recent))/old)
		}
	}
	if len(ratios) == 0 {
		return 1, false
	}
	ratio = middle(ratios)
	return ratio, math.Abs(ratio-1) > f.settings.Drift
}

// Slow says whether a worker is slow.
func (f *Fleet) Slow(id int64) bool {
	return f.settings.On() && f.settings.Slow > 0 && f.Factor(id) >= f.settings.Slow
}

// MinCPULimit is what the CPU limit of a job must be above for a worker to get
// it: a slow one is kept off tight limits. 0 is any.
func (f *Fleet) MinCPULimit(id int64) time.Duration {
	if f.Slow(id) {
		return f.settings.SlowCPU
	}
	return 0
}

// speedDue asks for a measurement when the last one of any language is old.
func (f *Fleet) speedDue(s *State, at time.Time) (Order, bool) {
	if f.settings.Recheck <= 0 || s.Gate {
		return Order{}, false
	}
	for _, l := range s.Order {
		if m := s.Languages[l]; m != nil && m.Aside != nil {
			continue
		}
		row := s.Samples[l]
		if len(row) == 0 || at.Sub(row[len(row)-1].At) < f.settings.Recheck {
			return Order{}, false // measured lately, or it joins still
		}
		return Order{Step{l, "AC"}, ForSpeed, false}, true // one language is enough
	}
	return Order{}, false
}

func last(row []Sample, n int) []Sample { return row[max(0, len(row)-n):] }

func median(row []Sample) float64 {
	values := make([]float64, len(row))
	for i, s := range row {
		values[i] = float64(s.CPUUS)
	}
	return middle(values)
}

// middle is the lower median; 0 of nothing.
func middle(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[(len(values)-1)/2]
}
