package edge_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/arbiter"
	"github.com/gavel-oj/gavel/internal/lease"
	"github.com/gavel-oj/gavel/internal/store"
)

// relay stands between a client and PostgreSQL and counts round trips: how
// often the client spoke after the server had.
type relay struct {
	url   string
	trips atomic.Int64
}

func newRelay(t testing.TB, to string) *relay {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	host, port := u.Hostname(), u.Port()
	if q.Has("host") {
		host = q.Get("host")
	}
	if q.Has("port") {
		port = q.Get("port")
	}
	if port == "" {
		port = "5432"
	}
	network, address := "tcp", net.JoinHostPort(host, port)
	if filepath.IsAbs(host) {
		network, address = "unix", filepath.Join(host, ".s.PGSQL."+port)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := (&net.Dialer{}).DialContext(context.WithoutCancel(t.Context()), network, address)
			if err != nil {
				_ = c.Close()
				continue
			}
			wg.Go(func() { r.pipe(c, s) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	_, own, _ := net.SplitHostPort(l.Addr().String())
	q.Del("host")
	q.Del("port")
	q.Set("sslmode", "disable")
	u.Host, u.RawQuery = "127.0.0.1:"+own, q.Encode()
	r.url = u.String()
	return r
}

func (r *relay) pipe(c, s net.Conn) {
	var clientSpoke atomic.Bool
	var wg sync.WaitGroup
	copyTo := func(to, from net.Conn, isClient bool) {
		defer to.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := from.Read(buf)
			if n > 0 {
				if was := clientSpoke.Swap(isClient); isClient && !was {
					r.trips.Add(1)
				}
				if _, err := to.Write(buf[:n]); err != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}
	wg.Go(func() { copyTo(s, c, true) })
	copyTo(c, s, false)
	_, _ = io.Copy(io.Discard, c)
	wg.Wait()
}

func through(t testing.TB, r *relay, conns int32) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), r.url, store.Options{Role: store.EdgeRole, MaxConns: conns})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

// Each call is one round trip, payload and history included; the old claim
// took about a dozen, with the site's lock in hand.
func TestEveryCallIsOneRoundTrip(t *testing.T) {
	s := newStand(t)
	r := newRelay(t, s.url)
	a := s.agentOn(through(t, r, 1), "home", made{slots: 3})
	cycle := func() map[string]int64 {
		took := map[string]int64{}
		count := func(what string, do func()) {
			before := r.trips.Load()
			do()
			took[what] = r.trips.Load() - before
		}
		for range 3 {
			s.submit("c")
		}
		var leases []gavelapi.Lease
		count("claim of three", func() { leases = a.poll() })
		if len(leases) != 3 {
			t.Fatalf("%d leases", len(leases))
		}
		count("heartbeat", func() { _ = a.beat(leases[0].LeaseToken) })
		count("result", func() { a.report(leases[0].LeaseToken, verdictReport("AC")) })
		count("fault", func() { a.report(leases[1].LeaseToken, faultReport("package")) })
		count("hand-back", func() {
			_, _ = a.Release(t.Context(), gavelapi.ReleaseRequest{LeaseToken: leases[2].LeaseToken, Reason: "shutdown"})
		})
		count("reclaim", func() { _, _, _ = a.Reclaim(t.Context()) })
		s.exec("update jobs set state = 'pending' where false; delete from jobs")
		count("idle poll", func() { a.poll() })
		return took
	}
	cycle() // statements are prepared at their first use
	for what, n := range cycle() {
		if n != 1 {
			t.Errorf("%s: %d round trips", what, n)
		}
	}
}

// What idle workers cost the database, by both ways:
//
//	go test ./internal/edge -run '^$' -bench Idle -benchtime 1x
func BenchmarkIdle(b *testing.B) {
	const window = 10 * time.Second
	for _, workers := range []int{3, 20} {
		b.Run(fmt.Sprintf("edge-%d", workers), func(b *testing.B) {
			for range b.N {
				t := testing.TB(b)
				s := newStand(t)
				r := newRelay(t, s.url)
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				for i := range workers {
					a := s.agentOn(through(t, r, 1), fmt.Sprint("w", i), made{})
					a.poll()
					wg.Go(func() { a.Keep(ctx) })
					wg.Go(func() {
						for ctx.Err() == nil {
							_, _ = a.Claim(ctx, a.request(uuid.NewString(), 25*time.Second))
						}
					})
				}
				s.idle(b, r, window)
				cancel()
				wg.Wait()
			}
		})
		b.Run(fmt.Sprintf("arbiter-%d", workers), func(b *testing.B) {
			for range b.N {
				t := testing.TB(b)
				s := newStand(t)
				r := newRelay(t, s.url)
				both := &both{stand: &stand{t: t, url: r.url, db: s.db}, dir: t.TempDir(), leader: arbiter.DefaultLeaderSettings}
				s.exec("update package_languages set rules = 'old'")
				both.up(lease.DefaultSettings)
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				for i := range workers {
					c := both.dial(both.http(fmt.Sprint("w", i)))
					session := uuid.NewString()
					wg.Go(func() {
						for ctx.Err() == nil {
							_, _ = c.Claim(ctx, gavelapi.ClaimRequest{
								RequestID: uuid.NewString(), Session: session, Slots: 1, TotalSlots: 1, WaitMS: 25_000,
								Capabilities: gavelapi.Capabilities{Languages: []gavelapi.LanguageOffer{{ID: "c", Version: "1"}}},
							})
						}
					})
				}
				s.idle(b, r, window)
				cancel()
				wg.Wait()
				both.down()
			}
		})
	}
}

// idle lets things settle and reports what the database does in a while.
func (s *stand) idle(b *testing.B, r *relay, window time.Duration) {
	b.Helper()
	wait := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-b.Context().Done():
		}
	}
	wait(3 * time.Second)
	wal := func() int { return s.number("select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint") }
	trips, bytes, began := r.trips.Load(), wal(), time.Now()
	wait(window)
	seconds := time.Since(began).Seconds()
	b.ReportMetric(float64(r.trips.Load()-trips)/seconds, "statements/s")
	b.ReportMetric(float64(wal()-bytes)/seconds, "WAL-B/s")
	b.ReportMetric(0, "ns/op")
}

// What a claim and its result cost beside a backlog of rejudges:
//
//	go test ./internal/edge -run '^$' -bench Claim -benchtime 200x
func BenchmarkClaim(b *testing.B) {
	for _, backlog := range []int{0, 1_000, 100_000} {
		b.Run(fmt.Sprintf("beside-%d", backlog), func(b *testing.B) {
			t := testing.TB(b)
			s := newStand(t)
			a := s.agent("home", made{})
			a.poll()
			id := s.submit("c")
			s.exec(`insert into jobs (judging_id, submission_id, kind, lane, language, created_at)
			  select judging_id, -n, 'rejudge', 'rejudge', 'python3', now() - interval '1 hour' from jobs, generate_series(1, $2) n where submission_id = $1`, id, backlog)
			s.exec("analyze jobs")
			a.report(a.claim().LeaseToken, verdictReport("AC"))
			b.ResetTimer()
			for range b.N {
				b.StopTimer()
				s.submit("c")
				b.StartTimer()
				a.report(a.claim().LeaseToken, verdictReport("AC"))
			}
		})
	}
}
