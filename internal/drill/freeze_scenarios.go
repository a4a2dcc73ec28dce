package drill

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
)

// freezeLimit is how much longer any other claim may wait because somebody is
// frozen than it waits at worst when nobody is.
const freezeLimit = 50 * time.Millisecond

var freezeScenarios = []Scenario{
	{
		Name: "a11-frozen-worker", What: "a worker falls asleep at 1,000 random moments of its calls", script: frozenWorker, Mixed: true,
		Fires:    "no lock is held for a worker's network (I7)",
		Sabotage: "a door in front of the arbiter stays shut from a grant to that worker's next call, as a lock held across calls does",
		limit:    20 * time.Minute,
	},
}

// frozenWorker freezes a worker that works without a pause, and measures what
// a claim of somebody else waits meanwhile; between the freezes it measures
// the same with nobody frozen. Both see the same machine and the same load, and
// wait the same before: what the disk does from time to time, and holds everybody
// up, comes to both alike. It is taken off from both.
func frozenWorker(t *T) {
	s := newStand(t)
	a := s.serve(20*time.Second, 200*time.Millisecond)
	door := ""
	if t.Sabotage {
		door = shutDoor(t, a.url)
	}
	victim := s.worker("victim", door, 1)
	s.awaitFinal(s.submit("*: AC after 0s"), 20*time.Second)
	other := s.caller("other", door, 1, handLanguage)
	if t.Sabotage { // what takes that long has been held up
		api, err := client.New(door, s.enrol("other", 1), client.Options{Timeout: time.Second})
		s.must(err, "client")
		other.api = s.written("other", api)
	}
	stock := func() {
		for open := s.number("select count(*) from jobs where state = 'pending'"); open < 40; open++ {
			s.submit("*: AC after 0s")
		}
	}
	rounds := t.rounds(1000)
	disk := s.watchStandstills()
	var calm, frozen []stretch
	for i := range rounds {
		if i%20 == 0 {
			stock()
		}
		t.wait(time.Duration(t.rand.IntN(25_000)) * time.Microsecond)
		calm = append(calm, s.probe(other))
		t.wait(time.Duration(t.rand.IntN(25_000)) * time.Microsecond)
		victim.freeze()
		frozen = append(frozen, s.probe(other))
		victim.thaw()
	}
	t.did("froze the worker %d times", len(frozen))
	disk.stop()
	beside, asleep := disk.waits(calm), disk.waits(frozen)
	at := func(all []time.Duration, q float64) time.Duration {
		return all[min(len(all)-1, int(q*float64(len(all))))]
	}
	t.took("claim beside a working worker, median", at(beside, 0.5), 0)
	t.took("claim beside a frozen worker, median", at(asleep, 0.5), 0)
	t.took("claim beside a working worker, longest", at(beside, 1), 0)
	t.took("claim beside a frozen worker, longest", at(asleep, 1), 0)
	t.took("the disk held everybody up, longest", disk.longest(), 0)
	t.took("extra wait because somebody is frozen, longest", max(0, at(asleep, 1)-at(beside, 1)), freezeLimit)
	t.mu.Lock()
	t.result.HoldUpMS, t.result.Bystanders = float64(at(asleep, 1).Microseconds())/1000, len(frozen)
	t.mu.Unlock()
	s.settle(60 * time.Second)
}

// probe is one whole turn of somebody else: a claim waits, work is handed in,
// and the result is reported. It returns from when to when the work was on its
// way to the claim.
func (s *stand) probe(c *caller) stretch {
	type grant struct {
		leases []gavelapi.Lease
		err    error
		at     time.Time
	}
	got := make(chan grant, 1)
	go func() {
		leases, err := c.ask(uuid.NewString(), 5*time.Second)
		got <- grant{leases, err, s.Clock.Now()}
	}()
	s.wait(time.Millisecond) // the claim is on its way or waits; either is a claim of somebody else
	began := s.Clock.Now()
	s.handIn(s.api)
	g := <-got
	if g.err != nil || len(g.leases) != 1 {
		s.Fatalf("somebody else's claim got %d leases after %v, %v", len(g.leases), g.at.Sub(began).Round(time.Millisecond), g.err)
	}
	c.wantReport(g.leases[0].LeaseToken, "AC", gavelapi.OutcomeRecorded)
	return stretch{began, g.at}
}

// shutDoor is the mistake that the scenario is about: something that all
// workers need is held from the grant to a worker until that worker calls again.
func shutDoor(t *T, to string) string {
	target, err := url.Parse(to)
	t.must(err, "address")
	var mu sync.Mutex
	holder, free := "", make(chan struct{}, 1)
	free <- struct{}{}
	release := func(who string) {
		mu.Lock()
		defer mu.Unlock()
		if holder == who && who != "" {
			holder = ""
			free <- struct{}{}
		}
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = func(resp *http.Response) error {
		if resp.StatusCode != http.StatusOK || !strings.HasSuffix(resp.Request.URL.Path, "/claim") {
			return nil
		}
		select {
		case <-free:
			mu.Lock()
			holder = resp.Request.Header.Get("Authorization")
			mu.Unlock()
		case <-resp.Request.Context().Done():
		}
		return nil
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		release(r.Header.Get("Authorization"))
		proxy.ServeHTTP(w, r)
	}))
	t.cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server.URL
}
