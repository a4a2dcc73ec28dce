package worker

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/worker/arbitertest"
)

// growing is an offer that grows.
type growing struct {
	changed chan struct{}

	mu   sync.Mutex
	caps gavelapi.Capabilities
}

func newGrowing() *growing { return &growing{changed: make(chan struct{}, 1), caps: testCapabilities} }

func (g *growing) now() gavelapi.Capabilities {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.caps
	c.Languages = slices.Clone(c.Languages)
	return c
}

func (g *growing) add(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.caps.Languages = append(slices.Clone(g.caps.Languages), gavelapi.LanguageOffer{ID: id, Version: "1"})
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

func (g *growing) in(c *Config) { c.Capabilities, c.OfferChanged = g.now, g.changed }

func TestWaitingClaimIsMadeAnewWhenMoreIsOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		g := newGrowing()
		newRig(t, arb, takes(time.Second), g.in).start()
		arb.Await(t, time.Minute, "the first claim", func() bool { return len(arb.Claims()) == 1 })
		synctest.Wait()
		from := time.Now()
		g.add("go")
		arb.Await(t, time.Minute, "the claim that offers more", func() bool { return len(arb.Claims()) == 3 })
		if late := time.Since(from); late > 100*time.Millisecond {
			t.Errorf("it came after %v", late)
		}
		c := arb.Claims()
		if c[1].RequestID != c[0].RequestID || c[1].WaitMS != 0 {
			t.Errorf("the claim that was broken off was not settled under its id: %+v", c[1])
		}
		if c[2].RequestID == c[0].RequestID || c[2].WaitMS != c[0].WaitMS || len(c[2].Capabilities.Languages) != 2 {
			t.Errorf("the new claim: %+v", c[2])
		}
		sleep(t, 20*time.Second)
		if n := len(arb.Claims()); n != 3 {
			t.Errorf("%d claims while nothing changed", n)
		}
	})
}

func TestLeaseGrantedWhileTheOfferChangesIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		g := newGrowing()
		arb.Fault = func(c arbitertest.Call) arbitertest.Fault {
			if c.Op == "claim" && c.N == 1 {
				return arbitertest.Slow // granted, and its answer on the way
			}
			return arbitertest.None
		}
		id := arb.Submit(arb.AddPackage(t, "a", 1, 1), gavelapi.Lease{})
		newRig(t, arb, takes(time.Second), g.in).start()
		arb.Await(t, time.Minute, "the grant", func() bool { return len(arb.Job(id).Attempts) == 1 })
		synctest.Wait()
		g.add("go")
		job := arb.AwaitState(t, time.Minute, id, "done")
		if len(job.Attempts) != 1 {
			t.Errorf("attempts %+v", job.Attempts)
		}
	})
}

func TestChangesWhileWorkingAreInTheNextClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		g := newGrowing()
		id := arb.Submit(arb.AddPackage(t, "a", 1, 1), gavelapi.Lease{})
		newRig(t, arb, takes(10*time.Second), g.in).start()
		arb.AwaitState(t, time.Minute, id, "leased")
		synctest.Wait()
		g.add("go")
		g.add("lua")
		arb.AwaitState(t, time.Minute, id, "done")
		arb.Await(t, time.Minute, "the next claim", func() bool { return len(arb.Claims()) == 2 })
		sleep(t, time.Second)
		if c := arb.Claims(); len(c) != 2 || len(c[1].Capabilities.Languages) != 3 {
			t.Errorf("claims %+v", c)
		}
	})
}
