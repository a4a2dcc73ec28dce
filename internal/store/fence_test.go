package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/internal/lease"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

var namedStatement = regexp.MustCompile(`(?m)^-- name: (\w+) `)

// fencedStatements are the names of those that ask for the term of their leader.
func fencedStatements(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("queries/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files of queries, %v", len(files), err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := string(raw)
		begins := append(namedStatement.FindAllStringSubmatchIndex(text, -1), []int{len(text)})
		for i, b := range begins[:len(begins)-1] {
			if strings.Contains(text[b[0]:begins[i+1][0]], "s.term = sqlc.arg(term)") {
				names = append(names, text[b[2]:b[3]])
			}
		}
	}
	slices.Sort(names)
	return names
}

// I8: whatever a leader gives, takes back or writes of its memory, it does
// nothing once somebody else leads, and all of it before.
func TestEachStatementOfALeaderNeedsItsTerm(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	leased := func() (store.Submitted, uuid.UUID) {
		s, token := f.submit(), uuid.New()
		if !f.do(s, lease.Grant, 0, token) || !f.do(s, lease.Heartbeat, 0, token) {
			t.Fatal("no lease was granted")
		}
		return s, token
	}
	waiting := f.submit()
	repeated, _ := leased()
	late, _ := leased()
	last, _ := leased()
	succeeded, _ := leased()
	request, session := uuid.New(), uuid.New()
	f.exec("update jobs set request_id = $2 where id = $1", repeated.JobID, request)
	f.exec("update jobs set session = $2 where id = $1", succeeded.JobID, session)
	f.exec("update jobs set lease_expires_at = now() - interval '1 second' where id = any($1)", []int64{late.JobID, last.JobID})
	f.exec("update jobs set attempts = $2 where id = $1", last.JobID, attemptCap)
	f.exec("insert into alarms (kind, subject, severity, summary, since) values ('k', 'goes on', 'page', '', now()), ('k', 'ends', 'page', '', now())")
	f.exec("insert into waiting_reasons (shape, cause, reason) values ('gone', 'queued', '')")
	f.exec("insert into webhooks (name, url, secret) values ('w', 'https://example.org', 's')")
	f.exec("insert into webhook_deliveries (webhook_id, message_id, event, payload) select id, 'm', 'e', '{}' from webhooks")

	statements := map[string]func(term int64) (int, error){
		"StartAlarm": func(term int64) (int, error) {
			return count(f.Q.StartAlarm(ctx, f.Pool, &storedb.StartAlarmParams{Kind: "k", Subject: "starts", Severity: "page", Evidence: json.RawMessage("{}"), Term: term}))
		},
		"ContinueAlarm": func(term int64) (int, error) {
			n, err := f.Q.ContinueAlarm(ctx, f.Pool, &storedb.ContinueAlarmParams{Kind: "k", Subject: "goes on", Evidence: json.RawMessage("{}"), Term: term})
			return int(n), err
		},
		"EndAlarm": func(term int64) (int, error) {
			return count(f.Q.EndAlarm(ctx, f.Pool, &storedb.EndAlarmParams{Kind: "k", Subject: "ends", Evidence: json.RawMessage("{}"), Term: term}))
		},
		"BeginAttempts": func(term int64) (int, error) {
			return count(f.Q.BeginAttempts(ctx, f.Pool, &storedb.BeginAttemptsParams{Term: term, Each: 10, Most: 10, Lasts: time.Minute}))
		},
		"GrantLeases": func(term int64) (int, error) {
			return count(f.Q.GrantLeases(ctx, f.Hot, &storedb.GrantLeasesParams{
				JobIds: []int64{waiting.JobID}, LeaseGens: []int64{0}, LeaseTokens: []uuid.UUID{uuid.New()}, WorkerIds: []int64{f.workerID},
				Sessions: []uuid.UUID{uuid.New()}, RequestIds: []uuid.UUID{uuid.New()}, Confirm: time.Minute, Term: term,
			}))
		},
		"HeldLeases": func(term int64) (int, error) {
			return count(f.Q.HeldLeases(ctx, f.Pool, &storedb.HeldLeasesParams{
				Confirm: time.Minute, JobIds: []int64{repeated.JobID}, WorkerID: f.workerID, RequestID: request, Term: term,
			}))
		},
		"RequeueExpired": func(term int64) (int, error) {
			return count(f.Q.RequeueExpired(ctx, f.Pool, &storedb.RequeueExpiredParams{AttemptCap: attemptCap, Term: term}))
		},
		"GiveUpExpired": func(term int64) (int, error) {
			return count(f.Q.GiveUpExpired(ctx, f.Pool, &storedb.GiveUpExpiredParams{AttemptCap: attemptCap, Term: term, Fault: json.RawMessage("{}")}))
		},
		"ExpireSession": func(term int64) (int, error) {
			n, err := f.Q.ExpireSession(ctx, f.Pool, &storedb.ExpireSessionParams{WorkerID: f.workerID, Session: session, Term: term})
			return int(n), err
		},
		"InsertProbe": func(term int64) (int, error) {
			_, err := f.Q.InsertProbe(ctx, f.Pool, &storedb.InsertProbeParams{
				Language: "c", PackageDigest: &f.digest, WorkerID: f.workerID, Term: term, Program: "AC", Purpose: "join", Source: []byte("x"), Limits: json.RawMessage("{}"),
			})
			if store.IsNoRows(err) {
				return 0, nil
			}
			return 1, err
		},
		"WriteReasons": func(term int64) (int, error) {
			n, err := f.Q.WriteReasons(ctx, f.Pool, &storedb.WriteReasonsParams{
				Term: term, GoneShapes: []string{"gone"}, GoneProblems: []int64{0}, GoneFailedBy: []string{""},
				Shapes: []string{"new"}, ProblemIds: []int64{0}, FailedBys: []string{""}, Causes: []string{"queued"}, Reasons: []string{"busy"},
			})
			var shapes string
			if err == nil {
				err = f.Pool.QueryRow(ctx, "select string_agg(shape, ' ' order by shape) from waiting_reasons").Scan(&shapes)
			}
			if want := []string{"gone", "new"}[n]; err == nil && shapes != want {
				err = fmt.Errorf("reasons of %q are stored, want %q", shapes, want)
			}
			return int(n), err
		},
		"WriteHealth": func(term int64) (int, error) {
			n, err := f.Q.WriteHealth(ctx, f.Pool, &storedb.WriteHealthParams{
				Term: term, WorkerIds: []int64{f.workerID}, States: []json.RawMessage{json.RawMessage("{}")}, SetAsideAts: []time.Time{time.Now()},
				Reasons: []string{""}, Languages: []json.RawMessage{json.RawMessage("[]")}, SpeedFactors: []float64{1},
			})
			return int(n), err
		},
	}
	if diff := cmp.Diff(fencedStatements(t), slices.Sorted(maps.Keys(statements))); diff != "" {
		t.Fatalf("statements with a term and those that this test tries (-have +tried):\n%s", diff)
	}
	for _, c := range []struct {
		when string
		term int64
		want int
	}{{"once somebody else leads", f.term - 1, 0}, {"while its leader leads", f.term, 1}} {
		// Backwards, so that ExpireSession leaves RequeueExpired nothing more to take back.
		for _, name := range slices.Backward(slices.Sorted(maps.Keys(statements))) {
			if n, err := statements[name](c.term); err != nil || n != c.want {
				t.Errorf("%s %s: %d rows, want %d (%v)", name, c.when, n, c.want, err)
			}
		}
	}
}

// A leadership gives grace once, when it begins: renewing it keeps no lease
// alive whose worker is gone.
func TestGraceIsGivenOnceForEachLeadership(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	s, token := f.submit(), uuid.New()
	f.do(s, lease.Grant, 0, token)
	f.do(s, lease.Heartbeat, 0, token)
	left := func() (seconds float64) {
		if err := f.Pool.QueryRow(ctx, "select extract(epoch from lease_expires_at - now()) from jobs where id = $1", s.JobID).Scan(&seconds); err != nil {
			t.Fatal(err)
		}
		return seconds
	}
	f.exec("update jobs set lease_expires_at = now() + interval '10 seconds' where id = $1", s.JobID)
	term, err := store.TakeOver(ctx, f.owner(), f.Q, storedb.TakeLeadershipParams{Holder: "next", Valid: time.Minute}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.TakeOverByRow(ctx, f.owner(), f.Q, storedb.TakeLeadershipParams{Holder: "rival", Valid: time.Minute}, time.Hour); !errors.Is(err, store.ErrLed) {
		t.Errorf("a rival without the lock is told %v while somebody leads", err)
	}
	if got := left(); got < 1800 {
		t.Errorf("after the takeover %.0f s are left, want an hour", got)
	}
	f.exec("update jobs set lease_expires_at = now() + interval '10 seconds' where id = $1", s.JobID)
	if n, err := f.Q.RenewLeadership(ctx, f.Pool, &storedb.RenewLeadershipParams{Valid: time.Minute, Term: term, Holder: "next"}); err != nil || n != 1 {
		t.Fatalf("%d rows, %v", n, err)
	}
	if got := left(); got > 10 {
		t.Errorf("after a renewal %.0f s are left, want 10 at most", got)
	}
}
