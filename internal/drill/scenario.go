package drill

import (
	"slices"
	"strings"
	"time"
)

// Scenario is one abnormal situation.
type Scenario struct {
	Name string // such as a1-worker-killed; the first part is its number
	What string // what is done
	// Fires names the protection that must fire.
	Fires string
	// Sabotage says how the protection is switched off in the counter-test.
	Sabotage string
	// Program means that it needs gavel-worker, its boxes and compilers.
	Program bool
	// Mixed means that it can be run with a mixed fleet, too.
	Mixed bool

	limit  time.Duration // for the whole of it; 0 is defaultLimit
	script func(*T)
}

const defaultLimit = 3 * time.Minute

// Number is the situation's number, such as A1; one without is its name.
func (s Scenario) Number() string {
	n, _, _ := strings.Cut(s.Name, "-")
	if !strings.ContainsAny(n, "0123456789") {
		return s.Name
	}
	return strings.ToUpper(n)
}

// All lists every scenario in the order of the situations.
func All() []Scenario {
	return slices.Concat(workerScenarios, arbiterScenarios, databaseScenarios, networkScenarios,
		raceScenarios, rejudgeScenarios, freezeScenarios, diskScenarios, clockScenarios, programScenarios, healthScenarios, sleepScenarios, stageScenarios)
}

// Sorted is All by number.
func Sorted() []Scenario {
	all := All()
	slices.SortStableFunc(all, func(a, b Scenario) int {
		return len(a.Number())*100 - len(b.Number())*100 + strings.Compare(a.Number(), b.Number())
	})
	return all
}

// Find returns the scenarios that a name means: a whole name, or a number such
// as A7, which may mean several.
func Find(name string) []Scenario {
	var found []Scenario
	for _, s := range Sorted() {
		if strings.EqualFold(s.Name, name) || strings.EqualFold(s.Number(), name) {
			found = append(found, s)
		}
	}
	return found
}
