package drill

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/auth"
)

// LoadSizes are what Load measures with.
type LoadSizes struct {
	Workers int           // that ask, heartbeat and report in a circle
	For     time.Duration // how long they do
	Claims  int           // that wait for work which never comes
	Pending int           // jobs that wait when the arbiter starts again
	Leased  int           // jobs that are leased then
}

// LoadLimit is the longest from the start of a killed arbiter to its first
// grant.
const LoadLimit = time.Second

// Load measures an arbiter and a database of its own: memory and processor of
// claims that wait, a restart beside much open work, and full cycles over HTTP
// with every commit synced. It is no drill: nothing is harmed but the arbiter
// that is restarted.
func Load(ctx context.Context, sizes LoadSizes, o Options) Result {
	return Run(ctx, Scenario{
		Name: "load", What: "figures of a busy arbiter", Fires: "-", limit: 15*time.Minute + sizes.For,
		script: func(t *T) {
			s := newStand(t)
			s.transcripts = "" // it is measured
			a := s.serve(time.Minute, 5*time.Second)
			s.idleClaims(a, sizes.Claims)
			s.restartBeside(a, sizes.Pending, sizes.Leased)
			s.cycles(sizes.Workers, sizes.For)
		},
	}, o)
}

// idleClaims opens claims that wait and looks at what they cost the arbiter.
func (s *stand) idleClaims(a *arbiterProcess, claims int) {
	tokens := s.enrolMany("idle", claims)
	before := a.residentMemory()
	ctx, quit := context.WithCancel(s.ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer quit()
	var waiting atomic.Int64
	for _, token := range tokens {
		all.Go(func() {
			if err := idleClaim(ctx, a.listen, token, &waiting); err != nil && ctx.Err() == nil {
				s.Errorf("a claim that waits: %v", err)
			}
		})
	}
	s.until(5*time.Minute, "every claim waits", func() bool { return waiting.Load() == int64(claims) })
	s.wait(3 * time.Second) // the last ones arrive, and the first rounds of garbage go
	cpu, began := a.processorTime(), s.Clock.Now()
	s.wait(10 * time.Second)
	cores := float64(a.processorTime()-cpu) / float64(s.Clock.Now().Sub(began))
	s.figure(fmt.Sprintf("%d waiting claims, memory of the arbiter", claims), float64(a.residentMemory()-before)/(1<<20), "MiB", 0)
	s.figure(fmt.Sprintf("%d waiting claims, processor of the arbiter", claims), cores, "cores", 0)
	s.did("%d claims waited", claims)
}

// idleClaim asks for work in a language that nobody hands in, for ever, on one
// connection.
func idleClaim(ctx context.Context, address, token string, waiting *atomic.Int64) error {
	var d net.Dialer
	var conn net.Conn
	for try := 0; ; try++ {
		var err error
		if conn, err = d.DialContext(ctx, "tcp", address); err == nil {
			break
		} else if try == 5 || ctx.Err() != nil {
			return err
		}
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	session := uuid.NewString()
	in := bufio.NewReaderSize(conn, 1024)
	for counted := false; ctx.Err() == nil; {
		body, err := json.Marshal(gavelapi.ClaimRequest{
			RequestID: uuid.NewString(), Session: session, Slots: 1, TotalSlots: 1, WaitMS: 25_000,
			Capabilities: gavelapi.Capabilities{
				Cores: 1, MemoryBytes: 1 << 30, Arch: "drill", Build: "drill", Kernel: "drill",
				Languages: []gavelapi.LanguageOffer{{ID: bystanderLanguage, Version: "drill"}},
			},
		})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(conn, "POST /v1/worker/claim HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n%s: %d\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			address, token, gavelapi.ProtocolHeader, gavelapi.ProtocolVersion, len(body), body)
		if err != nil {
			return err
		}
		if !counted {
			counted = true
			waiting.Add(1)
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			return fmt.Errorf("answered %s: %w", resp.Status, err)
		}
	}
	return nil
}

// enrolMany makes workers known in one statement and returns their tokens.
func (s *stand) enrolMany(prefix string, n int) []string {
	names, tokens, hashes := make([]string, n), make([]string, n), make([][]byte, n)
	for i := range n {
		names[i] = fmt.Sprintf("%s-%05d", prefix, i)
		secret, hash := auth.NewToken(auth.Worker)
		tokens[i], hashes[i] = secret, hash[:]
	}
	s.exec(`with input as (select unnest($1::text[]) as name, unnest($2::bytea[]) as hash),
     made as (insert into workers (name) select name from input returning id, name)
insert into tokens (kind, hash, worker_id) select 'worker', i.hash, m.id from made m join input i using (name)`, names, hashes)
	return tokens
}

// restartBeside kills an arbiter that has much open work, and looks how soon
// after its start it grants.
func (s *stand) restartBeside(a *arbiterProcess, pending, leased int) {
	sub := s.submit("by hand")
	hand := s.caller("hand", "", 1)
	a.kill()
	s.openWork(sub, pending, leased)
	asking, stop := context.WithCancel(s.ctx)
	defer stop()
	granted := make(chan time.Time, 1)
	began := s.Clock.Now()
	a.process = a.again()
	go func() {
		request := uuid.NewString()
		for asking.Err() == nil {
			if leases, err := hand.ask(request, time.Second); err == nil && len(leases) > 0 {
				granted <- s.Clock.Now()
				return
			}
			select {
			case <-s.Clock.After(2 * time.Millisecond):
			case <-asking.Done():
			}
		}
	}()
	s.until(2*time.Minute, "the arbiter grants again", func() bool {
		select {
		case at := <-granted:
			s.took(fmt.Sprintf("restart beside %d pending and %d leased, to the first grant", pending, leased), at.Sub(began), LoadLimit)
			return true
		default:
			return false
		}
	})
	s.did("restarted the arbiter beside %d pending and %d leased jobs", pending, leased)
	// It is not judged: it goes, and the arbiter starts once more without it.
	a.kill()
	s.exec("delete from jobs")
	s.exec("update attempts set outcome = 'cancelled', ended_at = now() where outcome = 'running'")
	s.restart(a)
}

// openWork stores jobs as if they had been handed in and granted. Their
// submissions do not exist: nobody reads them.
func (s *stand) openWork(of int64, pending, leased int) {
	tx, err := s.db.Begin(s.ctx)
	s.must(err, "store open work")
	defer func() { _ = tx.Rollback(context.WithoutCancel(s.ctx)) }() // committed below
	for _, sql := range []string{
		"set local session_replication_role = replica",
		fmt.Sprintf(`insert into jobs (judging_id, submission_id, kind, lane, language, created_at)
select g.id, -n, 'judge', 'judge', '%s', now() from judgings g, generate_series(1, %d) n where g.submission_id = %d`, language, pending, of),
		fmt.Sprintf(`insert into jobs (judging_id, submission_id, kind, lane, language, state, lease_gen, attempts, lease_token, lease_expires_at, confirmed, worker_id, session, request_id)
select g.id, -%d - n, 'judge', 'judge', '%s', 'leased', 1, 1, gen_random_uuid(), now() + interval '1 minute', true, w.id, gen_random_uuid(), gen_random_uuid()
  from judgings g, generate_series(1, %d) n join workers w on w.name = 'idle-' || lpad((n - 1)::text, 5, '0') where g.submission_id = %d`, pending, language, leased, of),
	} {
		_, err := tx.Exec(s.ctx, sql)
		s.must(err, "store open work")
	}
	s.must(tx.Commit(s.ctx), "store open work")
	if n := s.number("select count(*) from jobs where state = 'leased'"); n != leased {
		s.Fatalf("%d leased jobs were stored, want %d", n, leased)
	}
}

// cycles counts full cycles of workers that wait for work, each a submission, a
// claim, a heartbeat and a result with its rows, over HTTP: first beside the
// sites that hand in, then of submissions that were stored beforehand.
func (s *stand) cycles(workers int, during time.Duration) {
	ctx, quit := context.WithCancel(s.ctx)
	defer quit()
	all := make([]*caller, workers)
	for i := range all {
		all[i] = s.caller(fmt.Sprintf("busy-%03d", i), "", 1)
	}
	handing, enough := context.WithCancel(ctx)
	defer enough()
	var done, handed atomic.Int64
	ahead := int64(2 * workers) // submissions that wait at most
	sites := s.keepHandingIn(handing, &handed, func() bool { return handed.Load()-done.Load() <= ahead })
	wait := s.work(ctx, all, &done)
	s.wait(2 * time.Second) // everybody is at work
	first, began := done.Load(), s.Clock.Now()
	s.wait(during)
	rate := float64(done.Load()-first) / s.Clock.Now().Sub(began).Seconds()
	enough()
	sites()
	s.until(time.Minute, "what was handed in is judged", func() bool { return done.Load() == handed.Load() })
	quit()
	wait()
	s.figure(fmt.Sprintf("full cycles over HTTP, %d workers", workers), rate, "per second", 0)

	beforehand := handed.Load() + int64(20*workers)
	handing, enough = context.WithCancel(s.ctx)
	defer enough()
	sites = s.keepHandingIn(handing, &handed, func() bool { return handed.Load() < beforehand })
	s.until(5*time.Minute, "submissions are stored", func() bool { return handed.Load() >= beforehand })
	enough()
	sites()
	ctx, quit = context.WithCancel(s.ctx)
	defer quit()
	first, began = done.Load(), s.Clock.Now()
	wait = s.work(ctx, all, &done)
	s.until(5*time.Minute, "what was stored is judged", func() bool { return done.Load() == handed.Load() })
	rate = float64(done.Load()-first) / s.Clock.Now().Sub(began).Seconds()
	quit()
	wait()
	s.figure(fmt.Sprintf("the same of %d that were stored beforehand", done.Load()-first), rate, "per second", 0)
	s.did("%d full cycles", done.Load())
}

// keepHandingIn has sites hand in while there is room, until ctx ends; wait waits for
// the last of them.
func (s *stand) keepHandingIn(ctx context.Context, handed *atomic.Int64, room func() bool) (wait func()) {
	var sites sync.WaitGroup
	for range 16 {
		sites.Go(func() {
			for ctx.Err() == nil {
				if !room() {
					s.wait(time.Millisecond)
					continue
				}
				sub, err := s.api.SubmissionCreate(s.ctx, gavelapi.NewSubmission{Problem: "p", Language: language, Source: "by hand"}, "")
				if err != nil {
					s.Errorf("submit: %v", err)
					return
				}
				s.owe(sub.ID, nil)
				handed.Add(1)
			}
		})
	}
	return sites.Wait
}

// work has workers carry out what they are given until ctx ends.
func (s *stand) work(ctx context.Context, workers []*caller, done *atomic.Int64) (wait func()) {
	var all sync.WaitGroup
	for _, c := range workers {
		all.Go(func() {
			for ctx.Err() == nil {
				leases, err := c.ask(uuid.NewString(), 500*time.Millisecond)
				if err != nil && ctx.Err() == nil {
					s.Errorf("%s claims: %v", c.name, err)
					return
				}
				for _, l := range leases {
					s.must(c.beat(l.LeaseToken), "heartbeat")
					c.wantReport(l.LeaseToken, "AC", gavelapi.OutcomeRecorded)
					done.Add(1)
				}
			}
		})
	}
	return all.Wait
}

// residentMemory is what it holds now, in bytes.
func (p *process) residentMemory() int64 {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid()) + "/statm")
	if err != nil {
		return 0
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(raw))[1], 10, 64) // the kernel writes a number
	return pages * int64(os.Getpagesize())
}

// processorTime is what it has used so far.
func (p *process) processorTime() time.Duration {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid()) + "/stat")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}
