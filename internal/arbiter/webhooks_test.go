package arbiter_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/alarm"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/arbiter"
	"github.com/gavel-oj/gavel/internal/store/storedb"
	"github.com/gavel-oj/gavel/internal/webhook"
)

// heard is a message that an endpoint got and verified.
type heard struct {
	id     string
	body   []byte
	header http.Header
	gavelapi.WebhookMessage
}

// signedWith says whether somebody with a secret can verify it.
func (h heard) signedWith(t *testing.T, secret string) bool {
	t.Helper()
	return hookOf(t, secret).Verify(h.body, h.header) == nil
}

func hookOf(t *testing.T, secret string) *standardwebhooks.Webhook {
	t.Helper()
	hook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	return hook
}

// endpoint is somebody's server. It answers with status, and verifies.
type endpoint struct {
	*httptest.Server

	t        *testing.T
	status   atomic.Int64
	hook     atomic.Pointer[standardwebhooks.Webhook]
	messages chan heard
}

func newEndpoint(t *testing.T) *endpoint {
	t.Helper()
	e := &endpoint{t: t, messages: make(chan heard, 100)}
	e.status.Store(http.StatusOK)
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = e.hook.Load().Verify(body, r.Header)
		}
		m := heard{id: r.Header.Get("webhook-id"), body: body, header: r.Header.Clone()}
		if err == nil {
			err = json.Unmarshal(body, &m.WebhookMessage)
		}
		if err != nil {
			t.Errorf("a message that is not right: %v", err)
		}
		w.WriteHeader(int(e.status.Load()))
		e.messages <- m
	}))
	t.Cleanup(e.Close)
	return e
}

// next waits for a message.
func (e *endpoint) next() (m heard) {
	e.t.Helper()
	until(e.t, "a message comes", func() bool {
		select {
		case m = <-e.messages:
			return true
		default:
			return false
		}
	})
	return m
}

// tell adds an endpoint, which verifies with the secret that is returned.
func (s *stand) tell(e *endpoint, kinds ...string) (secret string) {
	s.t.Helper()
	w, err := s.AddWebhook(s.t.Context(), s.admin, gavelapi.NewWebhook{Name: "ops", URL: e.URL, Kinds: kinds})
	if err != nil {
		s.t.Fatal(err)
	}
	e.hook.Store(hookOf(s.t, w.Secret))
	return w.Secret
}

// rotate gives the endpoint another secret.
func (s *stand) rotate(r gavelapi.WebhookRotation) gavelapi.Webhook {
	s.t.Helper()
	w, err := s.RotateWebhook(s.t.Context(), s.admin, "ops", r)
	if err != nil {
		s.t.Fatal(err)
	}
	return w
}

// ping sends a message that says nothing, and waits for it.
func (s *stand) ping(e *endpoint) heard {
	s.t.Helper()
	if _, err := s.TestWebhook(s.t.Context(), s.admin, "ops", ""); err != nil {
		s.t.Fatal(err)
	}
	return e.next()
}

func (s *stand) deliveries() []gavelapi.Delivery {
	s.t.Helper()
	list, err := s.Deliveries(s.t.Context(), "ops", "", 50)
	if err != nil {
		s.t.Fatal(err)
	}
	return list.Deliveries
}

func TestAnEndpointIsToldOfTheStartAndTheEndOfAnAlarm(t *testing.T) {
	t.Parallel()
	s := newWatched(t, func(c *arbiter.Config) { c.WebhookPrivate = true })
	e := newEndpoint(t)
	s.tell(e, string(alarm.JudgeDown))
	s.submit("cpp17")
	down := s.starts(alarm.JudgeDown)
	if m := e.next(); m.Type != "alarm.started" || m.Data.ID != down.ID || m.Data.Kind != "judge_down" || m.Data.EndedAt != nil {
		t.Errorf("told %s", asJSON(m.WebhookMessage))
	}
	s.starts(alarm.OldestWaiting) // of which it does not want to know
	s.worker("w", 1, "cpp17").hold()
	s.ends(down)
	if m := e.next(); m.Type != "alarm.ended" || m.Data.ID != down.ID || m.Data.LastedMS <= 0 {
		t.Errorf("told %s", asJSON(m.WebhookMessage))
	}
	until(t, "the log says so", func() bool {
		log := s.deliveries()
		return len(log) == 2 && log[0].State == "delivered" && log[1].State == "delivered" && log[0].Status == 200 && log[0].Attempts == 1
	})
	if g := s.gauges(); g["gavel_webhook_deliveries_total delivered"] != 2 || g["gavel_webhook_deliveries_total failed"] != 0 {
		t.Errorf("metrics: %v", g)
	}
}

// A message that an endpoint refuses is tried again, by another arbiter when
// the first is gone, with the same id and the next attempt.
func TestADeliverySurvivesAChangeOfLeader(t *testing.T) {
	t.Parallel()
	s := newWatched(t, func(c *arbiter.Config) { c.WebhookPrivate = true })
	e := newEndpoint(t)
	e.status.Store(http.StatusBadGateway)
	s.tell(e, string(alarm.JudgeDown)) // nothing but the test will be sent
	d, err := s.TestWebhook(t.Context(), s.admin, "ops", "")
	if err != nil {
		t.Fatal(err)
	}
	first := e.next()
	if first.id != d.MessageID || first.Type != "test" || first.Data != nil {
		t.Errorf("told %s of %s", asJSON(first.WebhookMessage), first.id)
	}
	until(t, "the refusal is written down", func() bool { return s.deliveries()[0].Error == "it answered 502" })
	if got := s.deliveries()[0]; got.State != "waiting" || got.NextAt == nil {
		t.Errorf("after a refusal: %s", asJSON(got))
	}
	// While the next attempt is under way, the refusal is still what is known.
	s.exec("insert into webhook_attempts (delivery_id, attempt, term) select id, 2, 0 from webhook_deliveries")
	s.exec("update webhook_deliveries set attempts = 2")
	if got := s.deliveries()[0]; got.Error != "it answered 502" || got.Attempts != 2 {
		t.Errorf("during the second attempt: %s", asJSON(got))
	}
	s.exec("delete from webhook_attempts where term = 0")
	s.exec("update webhook_deliveries set attempts = 1")
	until(t, "it is on /metrics", func() bool { return s.gauges()["gavel_webhook_backlog"] == 1 })
	s.stop()
	e.status.Store(http.StatusNoContent)
	heir := startWith(t, s.url, quick, func(c *arbiter.Config) { c.WebhookPrivate = true })
	heir.admin = s.admin
	heir.awaitReady()
	if second := e.next(); second.id != first.id {
		t.Errorf("the message came as %s and as %s", first.id, second.id)
	}
	until(t, "the delivery is written down", func() bool { return heir.deliveries()[0].State == "delivered" })
	if n := heir.number("select count(*) from webhook_attempts where delivery_id = $1 and attempt = any('{1,2}')", d.ID); n != 2 {
		t.Errorf("%d attempts are in the log", n)
	}
	if n := heir.number("select count(distinct term) from webhook_attempts where delivery_id = $1", d.ID); n != 2 {
		t.Errorf("they were made in %d terms", n)
	}
	if err := heir.Redeliver(t.Context(), heir.admin, d.ID, ""); err != nil {
		t.Fatal(err)
	}
	if third := e.next(); third.id != first.id {
		t.Errorf("sent again it came as %s", third.id)
	}
}

// What one arbiter has begun no other begins, and a leader of the past begins nothing.
func TestAnAttemptIsMadeByOne(t *testing.T) {
	t.Parallel()
	s := newWatched(t, func(c *arbiter.Config) { c.WebhookPrivate = true })
	e := newEndpoint(t)
	s.tell(e)
	s.stop()
	heir := startOn(t, s.url, quick)
	heir.awaitReady()
	term := int64(heir.number("select term from leadership"))
	heir.stop()
	db := startOn(t, s.url, quick).db // of an arbiter that may lead by now: its term is a later one
	q, ctx := storedb.New(), t.Context()
	if _, err := db.Pool.Exec(ctx, "insert into webhook_deliveries (webhook_id, message_id, event, payload, next_at) select id, 'msg', 'test', '{}', now() - interval '1 second' from webhooks"); err != nil {
		t.Fatal(err)
	}
	begin := func(term int64) int {
		rows, err := q.BeginAttempts(ctx, db.Pool, &storedb.BeginAttemptsParams{Term: term, Each: 10, Most: 10, Lasts: 30e9})
		if err != nil {
			t.Fatal(err)
		}
		return len(rows)
	}
	if n := begin(term - 1); n != 0 {
		t.Errorf("a leader of the past began %d attempts", n)
	}
	until(t, "the next term has begun", func() bool {
		var now int64
		if err := db.Pool.QueryRow(ctx, "select term from leadership").Scan(&now); err != nil {
			t.Fatal(err)
		}
		return now == term+1
	})
	begin(term + 1) // or the arbiter itself has
	if n := begin(term + 1); n != 0 {
		t.Errorf("%d attempts were begun twice", n)
	}
	until(t, "it was begun once", func() bool {
		var n int
		if err := db.Pool.QueryRow(ctx, "select attempts from webhook_deliveries").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n == 1
	})
}

// An endpoint has time to change over: it verifies with the old secret, with
// either, and in the end with the new one only.
func TestAReplacedSecretSignsBesideTheNewOneAndThenNoMore(t *testing.T) {
	t.Parallel()
	s := newWatched(t, func(c *arbiter.Config) { c.WebhookPrivate = true })
	e := newEndpoint(t)
	older := s.tell(e, string(alarm.JudgeDown)) // nothing but tests will be sent
	if m := s.ping(e); !m.signedWith(t, older) {
		t.Error("before the rotation it is not signed")
	}
	rotated := s.rotate(gavelapi.WebhookRotation{KeepSeconds: new(int64(3600)), Reason: "somebody left"})
	newer := rotated.Secret
	if newer == "" || newer == older || rotated.OldSecretUntil == nil {
		t.Fatalf("rotated: %s", asJSON(rotated))
	}
	if m := s.ping(e); !m.signedWith(t, older) || !m.signedWith(t, newer) || m.signedWith(t, webhook.NewSecret()) {
		t.Errorf("beside each other: %q", m.header.Get("webhook-signature"))
	}
	list, err := s.Webhooks(t.Context())
	if err != nil || len(list.Webhooks) != 1 || list.Webhooks[0].Secret != "" || list.Webhooks[0].OldSecretUntil == nil || !list.Webhooks[0].OldSecretUntil.Equal(*rotated.OldSecretUntil) {
		t.Errorf("listed: %s, error %v", asJSON(list), err)
	}
	audit, err := s.Audit(t.Context(), "ops", "", 10)
	if raw := asJSON(audit); err != nil || len(audit.Entries) != 4 || audit.Entries[1].Action != "webhook.rotate" || audit.Entries[1].Reason != "somebody left" || strings.Contains(raw, "whsec_") {
		t.Errorf("audit: %s, error %v", raw, err)
	}

	s.exec("update webhook_old_secrets set until = now() - interval '1 second'")
	e.hook.Store(hookOf(t, newer))
	if m := s.ping(e); m.signedWith(t, older) || !m.signedWith(t, newer) {
		t.Errorf("after its time the old secret signs: %q", m.header.Get("webhook-signature"))
	}
	if list, err := s.Webhooks(t.Context()); err != nil || list.Webhooks[0].OldSecretUntil != nil {
		t.Errorf("listed: %s, error %v", asJSON(list), err)
	}
	s.stop()
	heir := startOn(t, s.url, quick) // which tidies up as soon as it leads
	until(t, "the old secret is deleted", func() bool { return heir.number("select count(*) from webhook_old_secrets") == 0 })
}

// Rotations during another: no secret that an endpoint may know ends before its
// time, unless the operator ends all of them.
func TestRotationsMayOverlap(t *testing.T) {
	t.Parallel()
	s := newWatched(t, func(c *arbiter.Config) { c.WebhookPrivate = true })
	e := newEndpoint(t)
	secrets := []string{s.tell(e, string(alarm.JudgeDown))}
	var far time.Time
	for i := range 4 {
		w := s.rotate(gavelapi.WebhookRotation{KeepSeconds: new(int64(4-i) * 3600)})
		secrets = append(secrets, w.Secret)
		if i == 0 {
			far = *w.OldSecretUntil
		}
	}
	m := s.ping(e)
	for i, secret := range secrets {
		if !m.signedWith(t, secret) {
			t.Errorf("secret %d does not sign", i)
		}
	}
	if list, err := s.Webhooks(t.Context()); err != nil || !list.Webhooks[0].OldSecretUntil.Equal(far) {
		t.Errorf("listed: %s, error %v, want the last end, %v", asJSON(list), err, far)
	}
	for what, c := range map[string]struct {
		name string
		r    gavelapi.WebhookRotation
		code apperr.Code
	}{
		"too many":     {"ops", gavelapi.WebhookRotation{}, apperr.Conflict},
		"nobody":       {"other", gavelapi.WebhookRotation{}, apperr.NotFound},
		"the same":     {"ops", gavelapi.WebhookRotation{Secret: secrets[4], KeepSeconds: new(int64(0))}, apperr.Invalid},
		"not a secret": {"ops", gavelapi.WebhookRotation{Secret: "whsec_short"}, apperr.Invalid},
	} {
		if _, err := s.RotateWebhook(t.Context(), s.admin, c.name, c.r); apperr.CodeOf(err) != c.code {
			t.Errorf("%s: %v", what, err)
		}
	}
	given := webhook.NewSecret()
	last := s.rotate(gavelapi.WebhookRotation{Secret: given, KeepSeconds: new(int64(0))})
	if last.Secret != given || last.OldSecretUntil != nil {
		t.Errorf("rotated: %s", asJSON(last))
	}
	e.hook.Store(hookOf(t, given))
	m = s.ping(e)
	for i, secret := range secrets {
		if m.signedWith(t, secret) {
			t.Errorf("secret %d signs, and is ended", i)
		}
	}
	if n := s.number("select count(*) from webhook_old_secrets"); n != 0 {
		t.Errorf("%d old secrets are kept", n)
	}
}

func TestEndpointsThatCannotBe(t *testing.T) {
	t.Parallel()
	s := newStand(t, quick)
	add := func(n gavelapi.NewWebhook) apperr.Code {
		_, err := s.AddWebhook(t.Context(), s.admin, n)
		return apperr.CodeOf(err)
	}
	for _, bad := range []gavelapi.NewWebhook{
		{Name: "no good", URL: "https://example.org"},
		{Name: "a", URL: "ftp://example.org"},
		{Name: "a", URL: "https://example.org", Kinds: []string{"judge_dwn"}},
		{Name: "a", URL: "https://example.org", Secret: "whsec_short"},
		{Name: "a", URL: "https://example.org", Secret: "whsec_!!!!!!!!!!!!!!!!!!!!!!!!!!!!!"},
	} {
		if got := add(bad); got != apperr.Invalid {
			t.Errorf("%+v was answered %v", bad, got)
		}
	}
	for _, private := range []string{"http://127.0.0.1:9000/hook", "http://localhost/", "https://[::1]/", "http://10.1.2.3/"} {
		_, err := s.AddWebhook(t.Context(), s.admin, gavelapi.NewWebhook{Name: "a", URL: private})
		if e, ok := errors.AsType[*apperr.Error](err); !ok || e.Code != apperr.Invalid || !strings.Contains(e.Hint, "GAVEL_WEBHOOK_PRIVATE=true") {
			t.Errorf("%s, to which nothing would be sent: %v", private, err)
		}
	}
	good := gavelapi.NewWebhook{Name: "a", URL: "https://name.invalid", Secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
	if _, err := s.AddWebhook(t.Context(), s.admin, good); err != nil {
		t.Fatal(err)
	}
	if got := add(good); got != apperr.Conflict {
		t.Errorf("a name that is taken: %v", got)
	}
	if err := s.RemoveWebhook(t.Context(), s.admin, "a", ""); err != nil {
		t.Error(err)
	}
	if err := s.RemoveWebhook(t.Context(), s.admin, "a", ""); apperr.CodeOf(err) != apperr.NotFound {
		t.Errorf("removed twice: %v", err)
	}
	if err := s.Redeliver(t.Context(), s.admin, 99, ""); apperr.CodeOf(err) != apperr.NotFound {
		t.Errorf("a delivery that does not exist: %v", err)
	}
}
