package drill

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
)

// liar stands before an arbiter and tells workers that their dead leases live
// and that their late reports were recorded.
func liar(t *T, arbiter string) string {
	to, err := url.Parse(arbiter)
	t.must(err, "address")
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ModifyResponse = func(resp *http.Response) error {
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		body := string(raw)
		switch {
		case strings.HasSuffix(resp.Request.URL.Path, "/result") && strings.Contains(body, gavelapi.OutcomeDiscarded):
			body = fmt.Sprintf(`{"outcome":%q}`, gavelapi.OutcomeRecorded)
		case strings.HasSuffix(resp.Request.URL.Path, "/heartbeat") && resp.StatusCode == http.StatusGone:
			body, resp.StatusCode = `{"ttl_ms":1000}`, http.StatusOK
			resp.Header.Set("Content-Type", "application/json")
		}
		resp.Body = io.NopCloser(strings.NewReader(body))
		resp.ContentLength = int64(len(body))
		resp.Header.Set("Content-Length", fmt.Sprint(len(body)))
		return nil
	}
	server := httptest.NewServer(proxy)
	t.cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server.URL
}

// The tables are right and the answers are not: a report that came too late is
// said to be recorded, and a lease that another worker holds to be alive. Both
// are found by what was asked and answered alone, and nothing else is.
func TestAnswersThatCannotBeAreFound(t *testing.T) {
	o := options(t)
	var honest, stale, twice int64
	r := Run(t.Context(), Scenario{Name: "test-answers", script: func(d *T) {
		s := newStand(d)
		a := s.serve(shortTTL, shortBeat)
		hand, fooled := s.caller("hand", "", 1), s.caller("fooled", liar(d, a.url), 1)
		// lost has the fooled worker's lease run out and its job given to the other.
		lost := func() (dead, live gavelapi.Lease) {
			id := s.submit("by hand")
			dead = fooled.take(20 * time.Second)
			s.until(20*time.Second, "the lease expires", func() bool {
				return s.number("select count(*) from attempts where submission_id = $1 and outcome = 'expired'", id) == 1
			})
			return dead, hand.take(20 * time.Second)
		}
		honestly := s.submit("by hand")
		hand.wantReport(hand.take(20*time.Second).LeaseToken, "AC", gavelapi.OutcomeRecorded)
		honest = s.jobOf(honestly)

		dead, live := lost()
		stale = live.JobID
		hand.wantReport(live.LeaseToken, "AC", gavelapi.OutcomeRecorded)
		fooled.wantReport(dead.LeaseToken, "WA", gavelapi.OutcomeRecorded)

		dead, live = lost()
		twice = live.JobID
		s.must(fooled.beat(dead.LeaseToken), "the heartbeat of a dead lease")
		hand.wantReport(live.LeaseToken, "AC", gavelapi.OutcomeRecorded)
		s.settle(20 * time.Second)
	}}, o)
	defer os.RemoveAll(r.Dir)
	if r.Verdict != Failed || r.Histories != 3 || r.Unordered != 2 || r.Undecided != 0 || len(r.Why) != 2 {
		t.Fatalf("%s, %d histories, %d wrong, %d undecided: %q", r.Verdict, r.Histories, r.Unordered, r.Undecided, r.Why)
	}
	t.Log(r.Why[0])
	for job, misfit := range map[int64]string{stale: "fooled: result", twice: "fooled: heartbeat"} {
		about := fmt.Sprintf("the answers about job %d follow from no order of its calls; up to this one they do: %s", job, misfit)
		if !slices.ContainsFunc(r.Why, func(why string) bool { return strings.HasPrefix(why, about) }) {
			t.Errorf("nothing begins with %q in %q", about, r.Why)
		}
		if page, err := os.ReadFile(filepath.Join(r.Dir, fmt.Sprintf("job-%d.html", job))); err != nil || !strings.Contains(string(page), misfit) {
			t.Errorf("the drawing of job %d has %d bytes, %v", job, len(page), err)
		}
	}
	if slices.ContainsFunc(r.Why, func(why string) bool { return strings.Contains(why, fmt.Sprintf("about job %d ", honest)) }) {
		t.Errorf("the honest answers about job %d are not believed", honest)
	}
}
