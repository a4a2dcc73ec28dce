package arbiter_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

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
		{"unknown language", func(n *gavelapi.NewSubmission) { n.Language = "cobol" }, apperr.Unsupported, "body.language", `no language "cobol"`},
		{"unknown problem", func(n *gavelapi.NewSubmission) { n.Problem = "q" }, apperr.NotFound, "body.problem", `no problem "q"`},
		{"empty source", func(n *gavelapi.NewSubmission) { n.Source = "" }, apperr.Invalid, "body.source", "empty"},
		{"source over the problem's limit", func(n *gavelapi.NewSubmission) { n.Source = strings.Repeat("x", 1025) }, apperr.TooLarge, "body.source", "at most 1024"},
		{"NUL in a file", func(n *gavelapi.NewSubmission) {
			n.Files = []gavelapi.SourceFile{{Name: "a.h"}, {Name: "b.h", ContentBase64: []byte("x\x00")}}
		}, apperr.Invalid, "body.files[1].content", "offset 1"},
		{"files over the problem's limit together", func(n *gavelapi.NewSubmission) {
			n.Source = strings.Repeat("x", 1000)
			n.Files = []gavelapi.SourceFile{{Name: "a.h", Content: strings.Repeat("x", 25)}}
		}, apperr.TooLarge, "body.files", "1025 bytes"},
		{"a name that leads elsewhere", withFile("../a.h"), apperr.Invalid, "body.files[0].name", "no plain file name"},
		{"a name with a directory", withFile("d/a.h"), apperr.Invalid, "body.files[0].name", "no plain file name"},
		{"a hidden name", withFile(".a.h"), apperr.Invalid, "body.files[0].name", "no plain file name"},
		{"a name that looks like an option", withFile("-a.c"), apperr.Invalid, "body.files[0].name", "no plain file name"},
		{"two files of a name", func(n *gavelapi.NewSubmission) {
			n.Files = []gavelapi.SourceFile{{Name: "a.h"}, {Name: "b.h"}, {Name: "A.h"}}
		}, apperr.Invalid, "body.files[2].name", "another file"},
		{"the main one's name", withFile("MAIN.c"), apperr.Invalid, "body.files[0].name", "another file"},
		{"a name that the compiler keeps for itself", withFile("a.h.gch"), apperr.Invalid, "body.files[0].name", "means something else"},
		{"a main file in another language", func(n *gavelapi.NewSubmission) {
			n.SourceName = "main.py"
			n.Files = []gavelapi.SourceFile{{Name: "a.h"}}
		}, apperr.Invalid, "body.source_name", "no C17"},
		{"too many files", func(n *gavelapi.NewSubmission) {
			for i := range 64 {
				n.Files = append(n.Files, gavelapi.SourceFile{Name: fmt.Sprintf("f%d.h", i)})
			}
		}, apperr.Invalid, "body.files[63].name", "at most 64"},
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

func withFile(name string) func(*gavelapi.NewSubmission) {
	return func(n *gavelapi.NewSubmission) { n.Files = []gavelapi.SourceFile{{Name: name, Content: "int x;"}} }
}

func TestASourceOfSeveralFilesReachesTheWorkerWhole(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	n := gavelapi.NewSubmission{
		Problem: "p", Language: "c", Source: "int main(){}", Files: []gavelapi.SourceFile{
			{Name: "util.h", Content: "int f();"}, {Name: "empty.h"}, {Name: "latin1.c", ContentBase64: []byte("// \xe9")},
		},
	}
	sub, _, err := s.CreateSubmission(t.Context(), s.admin, "", nil, n)
	if err != nil {
		t.Fatal(err)
	}
	if sub.SourceName != "main.c" || sub.SourceFiles != 4 || sub.SourceBytes != 12+8+4 {
		t.Errorf("%q, %d files, %d bytes", sub.SourceName, sub.SourceFiles, sub.SourceBytes)
	}
	want := []gavelapi.LeaseFile{
		{Name: "util.h", Content: []byte("int f();")}, {Name: "empty.h", Content: []byte{}}, {Name: "latin1.c", Content: []byte("// \xe9")},
	}
	request := w.request(uuid.NewString(), time.Second)
	for _, how := range []string{"granted", "given again for the same request"} {
		got, err := s.Claim(t.Context(), w.p, request)
		if err != nil || len(got.Leases) != 1 {
			t.Fatalf("%s: %+v, %v", how, got, err)
		}
		l := got.Leases[0]
		if diff := cmp.Diff(want, l.Files); diff != "" || string(l.Source) != n.Source || l.SourceName != "main.c" {
			t.Errorf("%s: main %s %q\n%s", how, l.SourceName, l.Source, diff)
		}
		if how == "granted" {
			continue
		}
		if r := w.report(l.LeaseToken, verdictReport("WA")); r.Outcome != gavelapi.OutcomeRecorded {
			t.Fatal(r)
		}
	}
	if _, err := s.RejudgeSubmission(t.Context(), s.admin, sub.ID, "again"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, w.claim().Files); diff != "" {
		t.Error("rejudged with other files:", diff)
	}

	src, err := s.SubmissionSource(t.Context(), sub.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(gavelapi.SubmissionSource{SubmissionID: sub.ID, Language: "c", Files: []gavelapi.SourceFile{
		{Name: "main.c", Content: n.Source}, n.Files[0], n.Files[1], n.Files[2],
	}}, src); diff != "" {
		t.Error(diff)
	}
	if src, err = s.SubmissionSource(t.Context(), s.submit("c").ID); err != nil || len(src.Files) != 1 || src.Files[0].Name != "main.c" {
		t.Errorf("of one file: %+v, %v", src, err)
	}
	if _, err = s.SubmissionSource(t.Context(), 1<<40); apperr.CodeOf(err) != apperr.NotFound {
		t.Errorf("of none: %v", err)
	}
	if got := s.read(sub.ID); got.SourceFiles != 4 {
		t.Errorf("read: %d files", got.SourceFiles)
	}
	list, err := s.Submissions(t.Context(), httpapi.SubmissionFilter{Limit: 1, Problem: "p"})
	if err != nil || list.Submissions[0].SourceFiles != 1 {
		t.Errorf("list: %+v, %v", list, err)
	}
}

// What handing in answers is put together without reading what was stored, and
// is the same.
func TestHandingInAnswersWhatReadingGives(t *testing.T) {
	s := newStand(t, quick)
	for _, n := range []gavelapi.NewSubmission{
		{Problem: "p", Language: "c", Source: "int main(){}"},
		{
			Problem: "p", Language: "cpp17", SourceBase64: []byte("int main(){}"), SourceName: "a.cpp", User: "ann", StopRule: "all",
			Priority: gavelapi.PriorityContest, Files: []gavelapi.SourceFile{{Name: "a.h", Content: "//"}},
		},
	} {
		said, _, err := s.CreateSubmission(t.Context(), s.admin, "", nil, n)
		if err != nil {
			t.Fatal(err)
		}
		read, err := s.Submission(t.Context(), said.ID, 0)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(read, said); diff != "" {
			t.Errorf("read (-), said (+):\n%s", diff)
		}
		if said.Waiting == "" {
			t.Error("it does not say why it waits")
		}
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

// A run's key is forgotten with the run, and is none of a submission's.
func TestAnIdempotencyKeyOfARun(t *testing.T) {
	s := newStand(t, quick)
	n := gavelapi.NewRun{Language: "c", Source: "int main(){}", User: "u"}
	hash, other := sha256.Sum256([]byte("body")), sha256.Sum256([]byte("another body"))
	runs := make(chan gavelapi.Run, 20)
	var stored atomic.Int32
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			run, replayed, err := s.CreateRun(t.Context(), s.admin, "key", hash[:], n)
			if err != nil {
				t.Error(err)
			}
			if !replayed {
				stored.Add(1)
			}
			runs <- run
		})
	}
	wg.Wait()
	first := <-runs
	for range 19 {
		if run := <-runs; run.ID != first.ID {
			t.Errorf("one key made runs %d and %d", first.ID, run.ID)
		}
	}
	if stored.Load() != 1 || s.number("select count(*) from runs") != 1 || s.number("select count(*) from jobs") != 1 {
		t.Errorf("one key stored %d", stored.Load())
	}
	refused := func(what string, err error) {
		t.Helper()
		if apperr.CodeOf(err) != apperr.Invalid {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, _, err := s.CreateRun(t.Context(), s.admin, "key", other[:], n)
	refused("the key with another body", err)
	sub := gavelapi.NewSubmission{Problem: "p", Language: "c", Source: "int main(){}"}
	_, _, err = s.CreateSubmission(t.Context(), s.admin, "key", hash[:], sub)
	refused("a run's key for a submission", err)
	if _, _, err := s.CreateSubmission(t.Context(), s.admin, "sub", hash[:], sub); err != nil {
		t.Fatal(err)
	}
	_, _, err = s.CreateRun(t.Context(), s.admin, "sub", hash[:], n)
	refused("a submission's key for a run", err)

	s.exec("delete from jobs where work_id = $1", first.ID)
	s.exec("delete from runs where id = $1", first.ID)
	if run, replayed, err := s.CreateRun(t.Context(), s.admin, "key", hash[:], n); err != nil || replayed || run.ID == first.ID {
		t.Errorf("the key of a deleted run: %d, replayed %t, %v", run.ID, replayed, err)
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
			if _, err := s.CancelSubmission(t.Context(), s.admin, sub.ID, ""); err != nil {
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
		{httpapi.SubmissionFilter{Problem: "p", Language: "rust"}, 0},
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
