package arbiter_test

import (
	"bytes"
	"context"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
)

// line is a way to the database's socket that can be cut on the near side: the
// server goes on with what it was asked, as when a router forgets a connection.
type line struct {
	url      string
	listener net.Listener
	wg       sync.WaitGroup
	mu       sync.Mutex
	near     map[net.Conn]bool // true once it has carried a grant
	far      []net.Conn
}

func newLine(t *testing.T, to string) *line {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil || u.Query().Get("host") == "" {
		t.Skipf("the test database is not on a unix socket: %v", err)
	}
	q, dir := u.Query(), t.TempDir()
	name := ".s.PGSQL." + q.Get("port")
	target := filepath.Join(q.Get("host"), name)
	l := &line{near: map[net.Conn]bool{}}
	if l.listener, err = net.Listen("unix", filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
	q.Set("host", dir)
	u.RawQuery = q.Encode()
	l.url = u.String()
	l.wg.Go(func() {
		for {
			near, err := l.listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("unix", target)
			if err != nil {
				_ = near.Close()
				continue
			}
			l.mu.Lock()
			l.near[near] = false
			l.far = append(l.far, far)
			l.mu.Unlock()
			l.wg.Go(func() { l.carry(near, far) })
			l.wg.Go(func() {
				defer near.Close()
				buf := make([]byte, 32<<10)
				for {
					n, err := far.Read(buf)
					if _, werr := near.Write(buf[:n]); err != nil && werr == nil || n == 0 {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.listener.Close()
		l.mu.Lock()
		for _, c := range l.far {
			_ = c.Close()
		}
		l.mu.Unlock()
		l.wg.Wait()
	})
	return l
}

// carry takes what the arbiter says to the server.
func (l *line) carry(near, far net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := near.Read(buf)
		if bytes.HasPrefix(buf[:n], []byte{0, 0, 0, 16, 4, 210, 22, 46}) {
			_ = near.Close() // a request to cancel, which would be lost as well
			_ = far.Close()
			return
		}
		if bytes.Contains(buf[:n], []byte("name: GrantLeases")) {
			l.mu.Lock()
			l.near[near] = true
			l.mu.Unlock()
		}
		if _, werr := far.Write(buf[:n]); werr != nil {
			return
		}
		if err != nil {
			l.mu.Lock()
			cut := l.near[near]
			l.mu.Unlock()
			if !cut { // an orderly end is passed on, a cut is not
				_ = far.Close()
			}
			return
		}
	}
}

// cutGrants cuts the connections that grants were sent on.
func (l *line) cutGrants() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for near, granting := range l.near {
		if granting {
			_ = near.Close()
		}
	}
}

// I4: a grant whose connection is cut may commit at any time after that. The
// leader must not go on granting as if reading the table told it what happened.
func TestAGrantThatCommitsAfterItsConnectionIsCutStillCounts(t *testing.T) {
	direct := newStand(t, quick)
	direct.stop()
	l := newLine(t, direct.url)
	s := startOn(t, l.url, quick)
	s.admin = direct.admin
	s.awaitReady()
	w := s.worker("w", 1, "c")
	first := s.submit("c")
	s.submit("c")

	ctx := t.Context()
	other, err := pgx.Connect(ctx, direct.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close(context.WithoutCancel(ctx)) }()
	count := func(sql string) (n int64) {
		if err := s.db.Pool.QueryRow(ctx, sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	const blocked, term = "select count(*) from pg_locks where not granted", "select term from leadership"
	before := count(term)
	tx, err := other.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "select from jobs where submission_id = $1 for update", first.ID); err != nil {
		t.Fatal(err)
	}
	claimed := make(chan []gavelapi.Lease, 1)
	go func() {
		req := w.request(uuid.NewString(), 10*time.Second)
		for {
			got, err := s.Claim(ctx, w.p, req)
			if err == nil {
				claimed <- got.Leases
				return
			}
			if apperr.CodeOf(err) != apperr.Unavailable {
				t.Errorf("the claim ended with %v", err)
				close(claimed)
				return
			}
		}
	}()
	until(t, "the grant is on its way", func() bool { return count(blocked) > 0 })
	l.cutGrants()
	until(t, "the arbiter goes on", func() bool { return count(blocked) > 1 || count(term) > before })
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	got := <-claimed
	if len(got) != 1 || got[0].SubmissionID != first.ID {
		t.Errorf("the worker was given %s", asJSON(got))
	}
	if n := count("select count(*) from jobs where state = 'leased'"); n != 1 {
		t.Errorf("a worker with one slot holds %d leases", n)
	}
}
