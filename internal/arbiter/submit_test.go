package arbiter_test

import (
	"crypto/sha256"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/arbiter"
	"github.com/gavel-oj/gavel/internal/clock"
	"github.com/gavel-oj/gavel/internal/httpapi"
	"github.com/gavel-oj/gavel/internal/lease"
	"github.com/gavel-oj/gavel/internal/store"
)

func newArbiter(t *testing.T, settings lease.Settings) (*arbiter.Arbiter, error) {
	t.Helper()
	return arbiter.New(arbiter.Config{DB: &store.DB{}, Lease: settings, Clock: clock.System{}, Logger: slog.New(slog.DiscardHandler)})
}

var _ httpapi.Service = (*arbiter.Arbiter)(nil)

func TestSubmissionsThatCannotBeJudgedAreRefused(t *testing.T) {
	s := newStand(t, quick)
	good := gavelapi.NewSubmission{Problem: "p", Language: "c", Source: "int main(){}"}
	for _, c := range []struct {
		name        string
		change      func(*gavelapi.NewSubmission)
		code        apperr.Code
		field, text string
	}{
		{"unknown language", func(n *gavelapi.NewSubmission) { n.Language = "cobol" }, apperr.Unsupported, "body.language", "unknown language"},
		{"unknown problem", func(n *gavelapi.NewSubmission) { n.Problem = "q" }, apperr.Invalid, "body.problem", "unknown problem"},
		{"empty source", func(n *gavelapi.NewSubmission) { n.Source = "" }, apperr.Invalid, "body.source", "empty"},
		{"source over the problem's limit", func(n *gavelapi.NewSubmission) { n.Source = strings.Repeat("x", 1025) }, apperr.TooLarge, "body.source", "at most 1024"},
		{"NUL in the source", func(n *gavelapi.NewSubmission) { n.Source = ""; n.SourceBase64 = []byte("int\x00") }, apperr.Invalid, "body.source", "offset 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := good
			c.change(&n)
			_, _, err := s.CreateSubmission(t.Context(), s.admin, "", nil, n)
			e, ok := errors.AsType[*apperr.Error](err)
			if !ok || e.Code != c.code || e.Field != c.field || !strings.Contains(e.Message, c.text) || e.Hint == "" {
				t.Errorf("error %#v", err)
			}
		})
	}
	if n := s.number("select count(*) from submissions"); n != 0 {
		t.Errorf("%d refused submissions were stored", n)
	}
	if _, _, err := s.CreateSubmission(t.Context(), s.admin, "", nil, good); err != nil {
		t.Errorf("the good one is refused: %v", err)
	}
}

func TestAnIdempotencyKeyStoresOnce(t *testing.T) {
	s := newStand(t, quick)
	n := gavelapi.NewSubmission{Problem: "p", Language: "c", Source: "int main(){}"}
	hash := sha256.Sum256([]byte("body"))
	ids := make(chan int64, 20)
	fresh := make(chan bool, 20)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			sub, replayed, err := s.CreateSubmission(t.Context(), s.admin, "key", hash[:], n)
			if err != nil {
				t.Error(err)
			}
			ids <- sub.ID
			fresh <- !replayed
		})
	}
	wg.Wait()
	close(ids)
	close(fresh)
	distinct, stored := map[int64]bool{}, 0
	for id := range ids {
		distinct[id] = true
	}
	for f := range fresh {
		if f {
			stored++
		}
	}
	if len(distinct) != 1 || stored != 1 || s.number("select count(*) from submissions") != 1 || s.number("select count(*) from jobs") != 1 {
		t.Errorf("one key made %d ids, %d of them fresh", len(distinct), stored)
	}
	other := sha256.Sum256([]byte("another body"))
	if _, _, err := s.CreateSubmission(t.Context(), s.admin, "key", other[:], n); apperr.CodeOf(err) != apperr.Invalid {
		t.Errorf("the key with another body: %v", err)
	}
}

func TestReportsWithAnyBytesAreStored(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	sub := s.submit("c")
	l := w.claim()
	r := verdictReport("WA")
	r.Compile.Log = "warning \x00 \xff\xfe " + strings.Repeat("é", 100_000)
	r.Tests[0].Message = "got \x00"
	if got := w.report(l.LeaseToken, r); got.Outcome != gavelapi.OutcomeRecorded {
		t.Fatalf("%+v", got)
	}
	got := s.read(sub.ID).Detail
	if !strings.HasPrefix(got.Compile.Log, "warning \uFFFD \uFFFD ") || len(got.Compile.Log) > 64<<10 || !got.Compile.LogCut || got.Tests[0].Message != "got \uFFFD" {
		t.Errorf("stored log of %d bytes, cut %v, message %q", len(got.Compile.Log), got.Compile.LogCut, got.Tests[0].Message)
	}
}

func TestAReportThatContradictsItselfIsAFaultOfItsHost(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	for name, r := range map[string]gavelapi.Report{
		"AC without tests":          {Verdict: "AC"},
		"AC with a failing test":    {Verdict: "AC", Tests: []gavelapi.TestResult{{Verdict: "WA"}}},
		"AC with a skipped test":    {Verdict: "AC", Tests: []gavelapi.TestResult{{Verdict: "AC"}, {Verdict: "skipped"}}},
		"not the first failure":     {Verdict: "TLE", Tests: []gavelapi.TestResult{{Verdict: "WA"}, {Verdict: "TLE"}}},
		"neither verdict nor fault": {},
		"an unknown verdict":        {Verdict: "OK"},
		"both verdict and fault":    {Verdict: "AC", Fault: &gavelapi.Fault{Blame: "host"}},
	} {
		t.Run(name, func(t *testing.T) {
			sub := s.submit("c")
			l := w.claim()
			w.report(l.LeaseToken, r)
			got := s.read(sub.ID)
			if got.Verdict != "" || len(got.Detail.Attempts) != 1 || got.Detail.Attempts[0].Blame != "host" || !strings.Contains(got.Detail.Attempts[0].Message, "contradicts itself") {
				t.Errorf("%s", asJSON(got))
			}
			if _, err := s.CancelSubmission(t.Context(), s.admin, sub.ID); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestListsArePagedAndFiltered(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	var want []int64
	for range 5 {
		want = append([]int64{s.submit("c").ID}, want...)
	}
	l := w.claim() // the oldest
	w.report(l.LeaseToken, verdictReport("AC"))
	var got []int64
	cursor, pages := "", 0
	for {
		page, err := s.Submissions(t.Context(), httpapi.SubmissionFilter{Limit: 2, Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		for _, sub := range page.Submissions {
			got = append(got, sub.ID)
		}
		pages++
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || pages != 3 {
		t.Errorf("%d pages: %s", pages, diff)
	}
	for _, c := range []struct {
		filter httpapi.SubmissionFilter
		want   int
	}{
		{httpapi.SubmissionFilter{Verdict: "AC"}, 1},
		{httpapi.SubmissionFilter{State: "pending"}, 4},
		{httpapi.SubmissionFilter{State: "done"}, 1},
		{httpapi.SubmissionFilter{Problem: "q"}, 0},
		{httpapi.SubmissionFilter{Problem: "p", Language: "c"}, 5},
		{httpapi.SubmissionFilter{User: "nobody"}, 0},
	} {
		c.filter.Limit = 100
		page, err := s.Submissions(t.Context(), c.filter)
		if err != nil || len(page.Submissions) != c.want {
			t.Errorf("filter %+v: %d, %v; want %d", c.filter, len(page.Submissions), err, c.want)
		}
	}
	if _, err := s.Submissions(t.Context(), httpapi.SubmissionFilter{Limit: 1, Cursor: "!"}); apperr.CodeOf(err) != apperr.Invalid {
		t.Errorf("a bad cursor: %v", err)
	}
}

func TestAnInvitationWorksOnce(t *testing.T) {
	s := newStand(t, quick)
	inv, err := s.Invite(t.Context(), s.admin, gavelapi.NewInvitation{Pool: "home"})
	if err != nil {
		t.Fatal(err)
	}
	s.worker("taken", 1, "c")
	if _, err := s.Enrol(t.Context(), gavelapi.EnrolRequest{Invitation: inv.Code, Name: "taken"}); apperr.CodeOf(err) != apperr.Conflict {
		t.Errorf("a taken name: %v", err)
	}
	got, err := s.Enrol(t.Context(), gavelapi.EnrolRequest{Invitation: inv.Code, Name: "fresh"}) // the refusal above did not use it up
	if err != nil || got.Pool != "home" {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := s.Enrol(t.Context(), gavelapi.EnrolRequest{Invitation: inv.Code, Name: "second"}); apperr.CodeOf(err) != apperr.Unauthorized {
		t.Errorf("using it twice: %v", err)
	}
	if _, err := s.Authenticate(t.Context(), inv.Code); apperr.CodeOf(err) != apperr.Unauthorized {
		t.Errorf("an invitation as a token: %v", err)
	}
}
