package sim

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/gavel-oj/gavel/internal/lease"
)

// Config is one history's world and what goes wrong in it. It is a function of
// the seed; each seed has another mixture, so that rare faults are not always
// buried under frequent ones.
type Config struct {
	Seed  uint64
	Bugs  Bugs
	Lease lease.Settings

	// Leadership, as arbiter.LeaderSettings. Poll and ReclaimTick are coarser
	// than the arbiter's, which only saves events in which nothing happens.
	Valid, Renew, Answer, Poll, ReclaimTick time.Duration

	Arbiters, Workers, Slots, Languages int
	MaxOpen                             int
	SubmitEvery, JudgeTime              time.Duration

	// Probabilities: of a message, a statement, a judging, a submission.
	Loss, Late, Slow, Double float64
	SlowDB, Doubt            [classes]float64 // by class of statement
	SlowJudge, Fault, Poison float64
	Cancel                   float64
	Skew                     bool
	Faults                   []Strike
}

// Strike is one fault at its time.
type Strike struct {
	At     Instant
	Kind   string
	Target int
	For    time.Duration
}

func (s Strike) String() string {
	return fmt.Sprintf("%v %s %d for %v", s.At.Round(time.Millisecond), s.Kind, s.Target+1, s.For.Round(time.Millisecond))
}

// Kinds of strikes, with the longest time that each takes.
var strikeKinds = []struct {
	kind      string
	longest   time.Duration
	ofLeaders bool
}{
	{"crash worker", 90 * time.Second, false},
	{"wipe worker", 90 * time.Second, false},
	{"freeze worker", 150 * time.Second, false},
	{"cut worker", 150 * time.Second, false},
	{"drain worker", 30 * time.Second, false},
	{"thief", 0, false},
	{"cut arbiter", 60 * time.Second, false},
	{"crash arbiter", 60 * time.Second, true},
	{"freeze arbiter", 150 * time.Second, true},
	{"stop arbiter", 30 * time.Second, true},
	{"database down", 40 * time.Second, true},
	{"sessions ended", 0, true},
}

// NewConfig makes the mixture of a seed.
func NewConfig(seed uint64) Config {
	r := rand.New(rand.NewPCG(seed, 2))
	some := func(most float64) float64 { // none, a little or a lot
		switch r.IntN(3) {
		case 0:
			return 0
		case 1:
			return most / 20
		}
		return most * r.Float64()
	}
	c := Config{
		Seed: seed, Lease: lease.DefaultSettings,
		Valid: 5 * time.Second, Renew: time.Second, Answer: 3 * time.Second, Poll: time.Second, ReclaimTick: time.Second,
		Arbiters: 1 + r.IntN(3), Workers: 1 + r.IntN(5), Slots: 1 + r.IntN(3), Languages: 1 + r.IntN(2), MaxOpen: 3 + r.IntN(20),
		SubmitEvery: time.Duration(1+r.IntN(8)) * time.Second, JudgeTime: time.Duration(1+r.IntN(40)) * time.Second,
		Loss: some(0.2), Late: some(0.1), Slow: some(0.3), Double: some(0.3),
		SlowJudge: some(0.2), Fault: some(0.3), Poison: some(0.2), Cancel: some(0.3), Skew: r.IntN(2) == 0,
	}
	c.Lease.AttemptCap = 1 + r.IntN(4)
	if r.IntN(2) == 0 { // short leases: more of them run out in a history
		ttl := time.Duration(9+r.IntN(12)) * time.Second
		c.Lease.TTL, c.Lease.Heartbeat, c.Lease.Confirm, c.Lease.Sweep, c.Lease.ClaimWait = ttl, ttl/4, 3*time.Second, 3*time.Second, ttl/2
	}
	if r.IntN(4) == 0 { // judgings that outlast their leases
		c.JudgeTime, c.SubmitEvery = 3*c.Lease.TTL, 10*time.Second
	}
	for _, rates := range []*[classes]float64{&c.SlowDB, &c.Doubt} {
		if one := r.IntN(2 * classes); one < classes {
			rates[one] = 0.5 * r.Float64()
			continue
		}
		for i := range rates {
			rates[i] = some(0.1)
		}
	}
	// Swarm: a history knows only some kinds of strikes, and every other one
	// leaves the leader in peace, whose changes give every lease its grace.
	var kinds []int
	peace := r.IntN(2) == 0
	if peace {
		c.SlowDB[ofLeadership], c.Doubt[ofLeadership], c.Doubt[ofGrants] = 0, 0, 0
	}
	for i, k := range strikeKinds {
		if r.IntN(3) > 0 && !(peace && k.ofLeaders) {
			kinds = append(kinds, i)
		}
	}
	gap := time.Duration(2+r.IntN(14)) * time.Second
	for at := time.Duration(0); len(kinds) > 0 && len(c.Faults) < 100; {
		at += time.Duration(r.Int64N(int64(2 * gap)))
		k := strikeKinds[kinds[r.IntN(len(kinds))]]
		s := Strike{At: at, Kind: k.kind, Target: r.IntN(8)}
		if k.longest > 0 {
			s.For = time.Duration(r.Int64N(int64(k.longest)))
			if r.IntN(2) == 0 {
				s.For /= 10
			}
		}
		c.Faults = append(c.Faults, s)
	}
	return c
}

// rates are the parts of a mixture that Without can take away by name.
func rates(c *Config) []struct {
	name string
	rate *float64
} {
	named := []struct {
		name string
		rate *float64
	}{
		{"loss", &c.Loss},
		{"late", &c.Late},
		{"slow", &c.Slow},
		{"double", &c.Double},
		{"slowjudge", &c.SlowJudge},
		{"fault", &c.Fault},
		{"poison", &c.Poison},
		{"cancel", &c.Cancel},
	}
	for i := range classes {
		named = append(named, named[0], named[0])
		named[len(named)-2].name, named[len(named)-2].rate = "slowdb"+strconv.Itoa(i), &c.SlowDB[i]
		named[len(named)-1].name, named[len(named)-1].rate = "doubt"+strconv.Itoa(i), &c.Doubt[i]
	}
	return named
}

// parts names everything that Without can take away: rates, "skew", and the
// strikes by their number.
func (c Config) parts() []string {
	var names []string
	for i := range c.Faults {
		names = append(names, strconv.Itoa(i))
	}
	for _, p := range rates(&c) {
		if *p.rate > 0 {
			names = append(names, p.name)
		}
	}
	if c.Skew {
		names = append(names, "skew")
	}
	return names
}

// Without is the mixture less the named parts, separated by commas. A range of
// strikes is written 3-7.
func (c Config) Without(names string) (Config, error) {
	full := c
	gone := map[int]bool{}
	for name := range strings.SplitSeq(names, ",") {
		if name == "" {
			continue
		}
		found := name == "skew"
		if found {
			c.Skew = false
		}
		for _, p := range rates(&c) {
			if p.name == name {
				*p.rate, found = 0, true
			}
		}
		from, to, isRange := strings.Cut(name, "-")
		if !isRange {
			to = from
		}
		lo, err1 := strconv.Atoi(from)
		hi, err2 := strconv.Atoi(to)
		if err1 == nil && err2 == nil {
			for i := lo; i <= hi; i++ {
				gone[i] = true
			}
			found = true
		}
		if !found {
			return c, fmt.Errorf("sim: %q is no part of a history", name)
		}
	}
	c.Faults = nil
	for i, f := range full.Faults {
		if !gone[i] {
			c.Faults = append(c.Faults, f)
		}
	}
	return c, nil
}
