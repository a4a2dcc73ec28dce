package health

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// machine drives a fleet with random events the way the arbiter does: only who
// is not away gets work, and only probes that are due are made.
type machine struct {
	f       *Fleet
	now     time.Time
	job     int64
	workers int64
	asideAt map[string]time.Time // subject → when it was set aside last
	freed   map[string]bool      // it returned by acquittal or reset
}

var languages = []string{"cpp17", "python3", "haskell"}

func newMachine(t *rapid.T) *machine {
	m := &machine{
		f: New(Default), now: start, workers: rapid.Int64Range(1, 4).Draw(t, "workers"),
		asideAt: map[string]time.Time{}, freed: map[string]bool{},
	}
	for id := int64(1); id <= m.workers; id++ {
		m.join(id, 0)
	}
	return m
}

func (m *machine) join(id int64, session int) {
	var offers []Offer
	for _, l := range languages {
		offers = append(offers, Offer{l, "1"})
	}
	m.f.Join(id, fmt.Sprint(session), offers, m.now)
}

// note checks what every change must keep.
func (m *machine) note(t *rapid.T, changes []Change) {
	for _, c := range changes {
		subject := fmt.Sprint(c.WorkerID, c.Language)
		switch c.What {
		case SetAside:
			if len(c.Evidence) == 0 || c.Reason == "" {
				t.Fatalf("%s is set aside without evidence: %+v", subject, c)
			}
			if last, before := m.asideAt[subject]; before && !m.freed[subject] && m.now.Sub(last) < Default.Backoff {
				t.Fatalf("%s is set aside again %v after the last time", subject, m.now.Sub(last))
			}
			m.asideAt[subject], m.freed[subject] = m.now, false
		case Returned:
			if !strings.HasPrefix(c.Reason, "it passed") {
				m.freed[subject] = true // acquitted, or by an operator
			} else if away := m.now.Sub(m.asideAt[subject]); away < Default.Backoff {
				t.Fatalf("%s returned by probes after %v", subject, away)
			}
		}
	}
}

// work gives a job to a worker unless it is away, as dispatch does.
func (m *machine) work(id int64, language string) (job int64, ok bool) {
	if m.f.Away(id) != "" || m.f.AsideLanguages(id)[language] != "" {
		return 0, false
	}
	m.job++
	return m.job, true
}

func (m *machine) fault(t *rapid.T, job, id int64, language, blame string) {
	m.note(t, m.f.Fail(Fault{WorkerID: id, Language: language, JobID: job, Kind: Faulted, Blame: blame, Message: "x", GrantedAt: m.now, At: m.now}))
}

func (m *machine) probe(t *rapid.T, id int64, pass bool) bool {
	o, ok := m.f.Due(id, m.now)
	if !ok {
		return false
	}
	if s := m.f.State(id); s.Worker.Aside != nil && m.now.Before(s.Worker.Aside.Until) {
		t.Fatalf("worker %d is probed before its back-off is over", id)
	}
	m.job++
	m.f.Opened(id, o, m.job, m.now)
	if _, twice := m.f.Due(id, m.now); twice {
		t.Fatalf("worker %d gets two probes at once", id)
	}
	m.note(t, m.f.ProbeEnded(id, m.job, Outcome{Passed: pass, Message: "wrong", CPU: time.Second}, m.now))
	return true
}

// Whatever happens: who is away gets nothing (that is how the machine works),
// nobody flaps faster than the back-off, evidence is bounded, what is stored
// is what is restored, and whoever passes all its probes returns in the end.
func TestAnyHistoryKeepsTheRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		sessions := 0
		draw := func(t *rapid.T) (int64, string) {
			return rapid.Int64Range(1, m.workers).Draw(t, "worker"), rapid.SampledFrom(languages).Draw(t, "language")
		}
		t.Repeat(map[string]func(*rapid.T){
			"time passes": func(t *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.Int64Range(1, int64(10*time.Minute)).Draw(t, "ns")))
			},
			"verdict": func(t *rapid.T) {
				id, l := draw(t)
				if job, ok := m.work(id, l); ok {
					m.note(t, m.f.Succeed(id, l, job, m.now))
				}
			},
			"fault": func(t *rapid.T) {
				id, l := draw(t)
				if job, ok := m.work(id, l); ok {
					m.fault(t, job, id, l, rapid.SampledFrom([]string{BlameHost, BlameToolchain, "package", "checker"}).Draw(t, "blame"))
				}
			},
			"lost": func(t *rapid.T) {
				id, l := draw(t)
				if job, ok := m.work(id, l); ok {
					m.note(t, m.f.Fail(Fault{WorkerID: id, Language: l, JobID: job, Kind: Lost, GrantedAt: m.now.Add(-time.Second), At: m.now}))
				}
			},
			"a job that several fail": func(t *rapid.T) {
				l := rapid.SampledFrom(languages).Draw(t, "language")
				m.job++
				job := m.job
				for id := int64(1); id <= m.workers; id++ {
					if m.f.Away(id) == "" && m.f.AsideLanguages(id)[l] == "" && rapid.Bool().Draw(t, "takes it") {
						m.fault(t, job, id, l, BlameHost)
					}
				}
				if rapid.Bool().Draw(t, "somebody can do it") {
					m.note(t, m.f.Succeed(rapid.Int64Range(1, m.workers).Draw(t, "who"), l, job, m.now))
				}
			},
			"probe": func(t *rapid.T) {
				id, _ := draw(t)
				m.probe(t, id, rapid.Bool().Draw(t, "passes"))
			},
			"restart": func(t *rapid.T) {
				id, _ := draw(t)
				sessions++
				m.join(id, sessions)
			},
			"reset": func(t *rapid.T) {
				id, l := draw(t)
				m.note(t, m.f.Reset(id, rapid.SampledFrom([]string{"", l}).Draw(t, "what"), m.now))
			},
			"": func(t *rapid.T) {
				for id := int64(1); id <= m.workers; id++ {
					s := m.f.State(id)
					if a := s.Worker.Aside; a != nil && (m.f.Away(id) == "" || len(a.Evidence) == 0 || len(a.Evidence) > maxEvidence) {
						t.Fatalf("worker %d is set aside with %d pieces of evidence and away because %q", id, len(a.Evidence), m.f.Away(id))
					}
					if len(s.Worker.Streak) > maxEvidence {
						t.Fatalf("worker %d has %d pieces of evidence", id, len(s.Worker.Streak))
					}
					if s.Worker.Aside == nil && m.f.weight(s.Worker.Streak, false) >= Default.Faults {
						t.Fatalf("worker %d has too much against it and works: %+v", id, s.Worker.Streak)
					}
				}
				restored := m.restore(t)
				if diff := cmp.Diff(m.f.workers, restored.workers, cmpopts.EquateEmpty()); diff != "" {
					t.Fatalf("restored differs (-kept +restored):\n%s", diff)
				}
				for id := range m.f.workers {
					if a, b := m.f.Factor(id), restored.Factor(id); a != b {
						t.Fatalf("worker %d: restored speed factor %v, was %v", id, b, a)
					}
				}
				if rapid.IntRange(0, 9).Draw(t, "take over") == 0 {
					m.f = restored // and everything goes on as before
				}
			},
		})
		m.allReturn(t)
	})
}

func (m *machine) restore(t *rapid.T) *Fleet {
	states := map[int64][]byte{}
	for id := range m.f.workers {
		raw, err := m.f.Dump(id)
		if err != nil {
			t.Fatal(err)
		}
		states[id] = raw
	}
	f, err := Restore(Default, states)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// allReturn passes every probe from now on.
func (m *machine) allReturn(t *rapid.T) {
	for range 12 { // each language has a back-off of its own
		for id := int64(1); id <= m.workers; id++ {
			for range 100 {
				if !m.probe(t, id, true) {
					break
				}
			}
		}
		m.now = m.now.Add(Default.BackoffMax)
	}
	for id := int64(1); id <= m.workers; id++ {
		if away, languages := m.f.Away(id), m.f.AsideLanguages(id); away != "" || languages != nil {
			t.Fatalf("worker %d passes all its probes and does not return: %q %v", id, away, languages)
		}
	}
}

// Whatever users hand in, nobody stays set aside for it: verdicts of all kinds,
// faults of packages and checkers, and poison that fails wherever it goes.
func TestUsersCannotSetAWorkerAside(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		if m.workers < 2 {
			return
		}
		for range rapid.IntRange(1, 60).Draw(t, "submissions") {
			m.job++
			job, l := m.job, rapid.SampledFrom(languages).Draw(t, "language")
			first := rapid.Int64Range(1, m.workers).Draw(t, "worker")
			switch rapid.SampledFrom([]string{"verdict", "package", "checker", "poison", "killer"}).Draw(t, "kind") {
			case "verdict":
				m.note(t, m.f.Succeed(first, l, job, m.now))
			case "package":
				m.fault(t, job, first, l, "package")
			case "checker":
				m.fault(t, job, first, l, "checker")
			case "poison":
				for attempt := range int64(3) {
					m.fault(t, job, 1+(first+attempt)%m.workers, l, BlameHost)
				}
			case "killer":
				for attempt := range int64(3) {
					m.note(t, m.f.Fail(Fault{WorkerID: 1 + (first+attempt)%m.workers, Language: l, JobID: job, Kind: Lost, GrantedAt: m.now, At: m.now}))
				}
			}
			m.now = m.now.Add(time.Second)
			for id := int64(1); id <= m.workers; id++ {
				if a := m.f.State(id).Worker.Aside; a != nil {
					t.Fatalf("worker %d is set aside for what users did: %+v", id, a)
				}
				if got := m.f.AsideLanguages(id); got != nil {
					t.Fatalf("worker %d: %v", id, got)
				}
			}
		}
	})
}
