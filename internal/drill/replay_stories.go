package drill

import (
	"time"

	"github.com/gavel-oj/gavel/internal/timeline"
)

// Story is an incident that can be replayed. Its times are those of the
// incident.
type Story struct {
	Name     string
	What     string
	Sabotage string // how the counter-test changes it

	clock   time.Duration   // on the wall when it begins, since midnight
	submits []time.Duration // when submissions are handed in, from its beginning
	least   time.Duration   // how long each way is looked at
	most    time.Duration   // when a way is given up
	old     map[string]oldPath
	ways    map[string]string
	expect  map[string]timeline.Expectation
	begin   func(*act)    // what goes wrong
	repair  time.Duration // when somebody notices and mends it; 0: nobody does
}

// Facts of the incidents that both the model and its check need.
const (
	sshSilence    = 3 * 300 * time.Second // ClientAliveInterval 300, ClientAliveCountMax 2: at the third question that is due, two are unanswered
	homeLine      = 20 * time.Millisecond // from home to the database, one way
	idleLimit     = 10 * time.Second      // as shipped on 29 September
	watchdogAfter = 2 * time.Minute       // without life
	watchdogEvery = time.Minute
	noteFrom      = 5 * time.Second  // of hold-ups of claims that are told one by one
	noticedAfter  = 44 * time.Minute // nine submissions hung for so long
)

func at(seconds ...int) (list []time.Duration) {
	for _, s := range seconds {
		list = append(list, time.Duration(s)*time.Second)
	}
	return list
}

func span(from, to time.Duration) timeline.Range { return timeline.Range{From: from, To: to} }

// Stories are the incidents that can be replayed.
func Stories() []Story {
	return []Story{fiveNights, september17}
}

// FindStory finds one by its name.
func FindStory(name string) (Story, bool) {
	for _, s := range Stories() {
		if s.Name == name {
			return s, true
		}
	}
	return Story{}, false
}

// fiveNights: on five nights the home machine fell asleep in the middle of a
// claim, with the site's lock in its hands.
var fiveNights = Story{
	Name: "five-nights", What: "the home machine falls asleep in the middle of a claim",
	Sabotage: "nobody falls asleep in the old way; edge pull gets the old lock",
	clock:    time.Hour, submits: at(5, 20, 40, 70, 100, 140, 180), least: 200 * time.Second, most: 25 * time.Minute,
	begin: (*act).fallAsleep,
	old: map[string]oldPath{
		timeline.Old: {HomeLocks: true, Savepoints: true},
		timeline.Fix: {Savepoints: true, IdleLimit: idleLimit},
	},
	ways: map[string]string{
		timeline.Old:     "each claim takes the site's one lock, then the row of the turn, then five savepoints, a round trip each",
		timeline.Fix:     "home does not take the lock, and a claim that says nothing for 10 s is ended; the row is still shared",
		timeline.Edge:    "gavel edge-worker: a claim is one statement",
		timeline.Arbiter: "workers wait at the arbiter; nobody else has a session in the database",
	},
	expect: map[string]timeline.Expectation{
		timeline.Old: {
			Way: timeline.Old, ClaimHeldUp: span(8*time.Minute, 16*time.Minute), Waited: span(8*time.Minute, 16*time.Minute),
			Rings: timeline.JudgeDown, When: span(2*time.Minute, 4*time.Minute),
		},
		// The server also leaves work to home until home has been silent for a minute.
		timeline.Fix:  {Way: timeline.Fix, ClaimHeldUp: span(5*time.Second, 12*time.Second), Waited: span(5*time.Second, 65*time.Second)},
		timeline.Edge: {Way: timeline.Edge, ClaimHeldUp: span(0, time.Second), Waited: span(0, 3*time.Second)},
		// What was given to the sleeper is given back after the 10 s of a grant that nobody confirms.
		timeline.Arbiter: {Way: timeline.Arbiter, ClaimHeldUp: span(0, time.Second), Waited: span(0, 13*time.Second)},
	},
}

// september17: the home worker could claim nothing and looked idle.
var september17 = Story{
	Name: "sep-17", What: "home looks online and idle, and all its claims fail",
	Sabotage: "the new table comes with its grant in the old way; edge pull yields for as long as a heartbeat is fresh",
	submits:  at(5, 20, 40, 60, 80, 100, 120, 150, 180), least: 200 * time.Second, most: 55 * time.Minute,
	begin: (*act).breakHome, repair: noticedAfter,
	old: map[string]oldPath{
		timeline.Old: {HomeLocks: true},
		timeline.Fix: {HomeLocks: true, Savepoints: true},
	},
	ways: map[string]string{
		timeline.Old:     "a claim looks at the new table first, and home has no grant on it; home's heartbeat is another piece of code",
		timeline.Fix:     "a savepoint for each cell; three failed rounds make a worker unhealthy",
		timeline.Edge:    "gavel edge-worker; home's login has lost the right to claim",
		timeline.Arbiter: "home needs no rights; it is given work and fails each piece of it",
	},
	expect: map[string]timeline.Expectation{
		timeline.Old:  {Way: timeline.Old, Waited: span(40*time.Minute, 46*time.Minute)},
		timeline.Fix:  {Way: timeline.Fix, Waited: span(0, 5*time.Second), Rings: timeline.Unhealthy, When: span(0, time.Minute)},
		timeline.Edge: {Way: timeline.Edge, ClaimHeldUp: span(0, time.Second), Waited: span(0, 3*time.Second), Rings: timeline.Unhealthy, When: span(0, 10*time.Minute)},
		timeline.Arbiter: {
			Way: timeline.Arbiter, ClaimHeldUp: span(0, time.Second), Waited: span(0, 3*time.Second),
			Rings: timeline.SetAside, When: span(0, 5*time.Minute),
		},
	},
}
