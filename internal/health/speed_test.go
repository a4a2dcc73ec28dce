package health

import (
	"testing"
	"time"
)

// measure has a worker pass an AC probe that takes so long.
func (s *tale) measure(worker int64, language string, cpu time.Duration) {
	s.job++
	s.Opened(worker, Order{Step: Step{language, "AC"}, Purpose: ForSpeed}, s.job, s.now)
	s.note(s.ProbeEnded(worker, s.job, Outcome{Passed: true, CPU: cpu}, s.now))
}

func TestSpeedIsMeasuredByTheFleet(t *testing.T) {
	s := begin(t)
	if got := s.Factor(1); got != 1 || s.Slow(1) {
		t.Errorf("without any measurement: %v", got)
	}
	for worker, cpu := range map[int64]time.Duration{1: 100, 2: 110, 3: 250} {
		for range 3 {
			s.measure(worker, "cpp17", cpu*time.Millisecond)
			s.measure(worker, "python3", 7*cpu*time.Millisecond)
		}
	}
	s.measure(3, "cpp17", time.Minute) // one bad moment is not what it is like
	for worker, want := range map[int64]float64{1: 100.0 / 110, 2: 1, 3: 250.0 / 110} {
		if got := s.Factor(worker); got < want-0.001 || got > want+0.001 {
			t.Errorf("worker %d has factor %.3f, want %.3f", worker, got, want)
		}
	}
	if s.MinCPULimit(1) != 0 || s.MinCPULimit(2) != 0 || s.MinCPULimit(3) != Default.SlowCPU {
		t.Errorf("tight limits: %v %v %v", s.MinCPULimit(1), s.MinCPULimit(2), s.MinCPULimit(3))
	}
	s.log = nil
	if n := len(s.State(1).Speeds); n != 6 {
		t.Errorf("%d points of history, want 6", n)
	}
}

func TestAMachineThatSlowsDownIsNoticedOnce(t *testing.T) {
	s := begin(t)
	for range 6 {
		s.measure(1, "cpp17", 100*time.Millisecond)
		s.measure(2, "cpp17", 100*time.Millisecond)
	}
	if ratio, drifts := s.Drift(1); drifts || ratio != 1 {
		t.Errorf("a steady machine drifts by %v", ratio)
	}
	for range 6 {
		s.measure(1, "cpp17", 130*time.Millisecond)
	}
	if ratio, drifts := s.Drift(1); !drifts || ratio < 1.29 || ratio > 1.31 {
		t.Errorf("drift %v %v", ratio, drifts)
	}
	s.wantLog("1 drifted")
}

func TestHistoriesAreBounded(t *testing.T) {
	s := begin(t)
	for range 1000 {
		s.measure(1, "cpp17", 100*time.Millisecond)
	}
	if st := s.State(1); len(st.Samples["cpp17"]) != maxSamples || len(st.Speeds) != maxSpeeds {
		t.Errorf("%d samples, %d speeds", len(st.Samples["cpp17"]), len(st.Speeds))
	}
}

func TestAnIdleWorkerIsMeasuredAgainNowAndThen(t *testing.T) {
	s := joined(t, "cpp17", "python3")
	s.probes(1, always)
	s.tick(Default.Recheck / 2)
	if o, ok := s.Due(1, s.now); ok {
		t.Errorf("too early: %+v", o)
	}
	s.tick(Default.Recheck)
	got := s.probes(1, always)
	if len(got) != 1 || got[0] != "cpp17 AC" {
		t.Errorf("measured by %v", got)
	}
}

func TestAWorkerMayBeUnknown(t *testing.T) {
	f := New(Default)
	if f.Factor(1) != 1 || f.MinCPULimit(1) != 0 || f.State(1) != nil || f.Away(1) != "" {
		t.Error("something is known of a worker that nobody has seen")
	}
	if r, d := f.Drift(1); r != 1 || d {
		t.Error("it drifts")
	}
	f.ProbeDropped(1, 1)
	if f.ProbeEnded(1, 1, Outcome{}, start) != nil || f.ProbeLost(1, 1, start, start) != nil || len(f.Changed()) != 0 {
		t.Error("a probe of it counts")
	}
}

func TestOnlyChangedStatesAreStored(t *testing.T) {
	s := joined(t, "cpp17")
	if got := s.Changed(); len(got) != 1 || got[0] != 1 {
		t.Errorf("changed: %v", got)
	}
	s.Join(1, "one", []Offer{{"cpp17", "1"}}, s.now)
	s.Due(1, s.now)
	if got := s.Changed(); len(got) != 0 {
		t.Errorf("nothing happened, yet %v changed", got)
	}
	s.ok(1, "cpp17")
	if got := s.Changed(); len(got) != 0 {
		t.Errorf("a verdict of a healthy worker changed %v", got)
	}
	s.Redo([]int64{1})
	if got := s.Changed(); len(got) != 1 {
		t.Errorf("to be stored again: %v", got)
	}
}

func TestABrokenStoredStateIsLeftOut(t *testing.T) {
	f, err := Restore(Default, map[int64][]byte{1: []byte("{"), 2: []byte(`{"gate":true,"languages":{"c":null}}`)})
	if err == nil || f.State(1) != nil || f.Away(2) == "" || f.AsideLanguages(2) != nil {
		t.Errorf("%v %+v", err, f)
	}
}
