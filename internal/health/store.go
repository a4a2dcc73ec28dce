package health

import (
	"encoding/json"
	"fmt"
)

// Dump is the state of a worker in the form that Restore takes.
func (f *Fleet) Dump(id int64) ([]byte, error) {
	s := f.workers[id]
	if s == nil {
		s = &State{}
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("health of worker %d: %w", id, err)
	}
	return raw, nil
}

// Restore makes a fleet of stored states. One that cannot be read is left out
// and named in the error; the fleet is good in any case.
func Restore(settings Settings, states map[int64][]byte) (*Fleet, error) {
	f := New(settings)
	var bad error
	for id, raw := range states {
		var s State
		if err := json.Unmarshal(raw, &s); err != nil {
			bad = fmt.Errorf("stored health of worker %d: %w", id, err)
			continue
		}
		for l, m := range s.Languages {
			if m == nil {
				s.Languages[l] = &Mark{}
			}
		}
		f.workers[id] = &s
	}
	f.reindex()
	for _, s := range f.workers {
		for l := range s.Samples {
			if _, done := f.medians[l]; !done {
				f.measure(l)
			}
		}
	}
	return f, bad
}
