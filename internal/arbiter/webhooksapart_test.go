package arbiter_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/alarm"
	"github.com/gavel-oj/gavel/internal/arbiter"
)

// An endpoint that never answers, with more messages due than there are places
// and all of them older, has its own attempts end late and nobody else's.
func TestAnEndpointThatNeverAnswersKeepsNoOtherWaiting(t *testing.T) {
	t.Parallel()
	s := newWatched(t, func(c *arbiter.Config) { c.WebhookPrivate = true })
	var here, most atomic.Int64
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n := here.Add(1)
		defer here.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not see that the sender has given up
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	t.Cleanup(s.stop) // before it, and with it the calls
	add := func(name, url string) gavelapi.Webhook {
		w, err := s.AddWebhook(t.Context(), s.admin, gavelapi.NewWebhook{Name: name, URL: url, Kinds: []string{string(alarm.JudgeDown)}})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	enqueue := func(name, age string, messages int) {
		s.exec(`insert into webhook_deliveries (webhook_id, message_id, event, payload, next_at)
			select w.id, 'msg_' || n, 'test', '{"type":"test","timestamp":"2026-01-01T00:00:00Z"}', now() - $2::text::interval
			  from webhooks w, generate_series(1, $3::int) n where w.name = $1`, name, age, messages)
	}
	begun := func() int {
		return s.number("select count(*) from webhook_attempts a join webhook_deliveries d on d.id = a.delivery_id join webhooks w on w.id = d.webhook_id where w.name = 'silent'")
	}
	add("silent", silent.URL)
	const waiting = 200
	enqueue("silent", "1 hour", waiting)
	until(t, "the silent endpoint has been called", func() bool { return most.Load() > 0 })
	e := newEndpoint(t)
	s.tell(e, string(alarm.JudgeDown))
	const told = 30
	enqueue("ops", "0", told)
	for range told {
		e.next()
	}
	if n := begun(); n == 0 || n >= waiting {
		t.Errorf("the other endpoint was told when %d of %d attempts to the silent one had begun", n, waiting)
	}
	if n := most.Load(); n > arbiter.DeliverEach {
		t.Errorf("%d attempts were made side by side to one endpoint, of at most %d", n, arbiter.DeliverEach)
	}
}
