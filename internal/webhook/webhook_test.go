package webhook_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/gavel-oj/gavel/internal/webhook"
)

func message(url string, secrets ...string) webhook.Message {
	return webhook.Message{ID: "msg_1", URL: url, Secrets: secrets, Body: []byte(`{"type":"alarm.started"}`)}
}

func TestWhatIsSentCanBeVerifiedByAnybodysLibrary(t *testing.T) {
	secret := webhook.NewSecret()
	hook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	verified := make(chan error, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		verified <- errors.Join(err, hook.Verify(body, r.Header))
		w.WriteHeader(http.StatusNoContent)
	}))
	defer srv.Close()
	if status, err := webhook.New(true, "gavel").Send(t.Context(), message(srv.URL, secret), time.Now()); err != nil || status != 204 {
		t.Errorf("status %d, error %v", status, err)
	}
	if err := <-verified; err != nil {
		t.Errorf("the signature: %v", err)
	}
}

// Whoever has one of the secrets can verify; whoever has another cannot.
func TestSeveralSecretsSign(t *testing.T) {
	older, newer := webhook.NewSecret(), webhook.NewSecret()
	verified := make(chan [3]error, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		var got [3]error
		for i, secret := range []string{older, newer, webhook.NewSecret()} {
			hook, err := standardwebhooks.NewWebhook(secret)
			if err != nil {
				t.Error(err)
			}
			got[i] = hook.Verify(body, r.Header)
		}
		verified <- got
	}))
	defer srv.Close()
	if _, err := webhook.New(true, "gavel").Send(t.Context(), message(srv.URL, newer, older), time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := <-verified; got[0] != nil || got[1] != nil || got[2] == nil {
		t.Errorf("the older, the newer and another secret: %v", got)
	}
	if _, err := webhook.New(true, "gavel").Send(t.Context(), message(srv.URL, newer, "whsec_!"), time.Now()); err == nil {
		t.Error("sent although a secret cannot be read")
	}
	if _, err := webhook.New(true, "gavel").Send(t.Context(), message(srv.URL), time.Now()); err == nil {
		t.Error("sent without a signature")
	}
}

func TestNothingIsSentToAddressesThatAreNotPublicUnlessAllowed(t *testing.T) {
	called := false
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true }))
	defer srv.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(srv.URL, "http://"), ":")
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"} {
		status, err := webhook.New(false, "gavel").Send(t.Context(), message("http://"+host+":"+port, webhook.NewSecret()), time.Now())
		if err == nil || status != 0 || !strings.Contains(err.Error(), "not a public one") {
			t.Errorf("%s: status %d, error %v", host, status, err)
		}
	}
	if called {
		t.Error("the server was reached")
	}
}

func TestWhichAddressesArePublic(t *testing.T) {
	for address, want := range map[string]bool{
		"1.1.1.1": true, "2606:4700::1111": true,
		"10.0.0.1": false, "172.16.0.1": false, "192.168.1.1": false, "169.254.169.254": false, "100.64.0.1": false, "127.0.0.1": false,
		"0.0.0.0": false, "255.255.255.255": false, "224.0.0.1": false, "198.18.0.1": false,
		"::1": false, "::": false, "fe80::1": false, "fd00::1": false, "ff02::1": false, "::ffff:10.0.0.1": false, "64:ff9b::a00:1": false, "2002:a00:1::": false,
	} {
		if got := webhook.Public(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s is public: %v", address, got)
		}
	}
}

// An endpoint that answers with a redirect, without end or not at all.
func TestAnAnswerThatIsNoSuccess(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer elsewhere.Close()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		case "/endless":
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		case "/dead":
			panic(http.ErrAbortHandler)
		}
	}))
	defer srv.Close()
	s := webhook.New(true, "gavel")
	send := func(path string) (int, error) {
		return s.Send(t.Context(), message(srv.URL+path+"?token=hush", webhook.NewSecret()), time.Now())
	}
	if status, err := send("/redirect"); status != 307 || err == nil {
		t.Errorf("a redirect: status %d, error %v", status, err)
	}
	if status, err := send("/endless"); status != 200 || err != nil {
		t.Errorf("an endless answer: status %d, error %v", status, err)
	}
	if status, err := send("/dead"); status != 0 || err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("no answer: status %d, error %v", status, err)
	}
	big := message(srv.URL, webhook.NewSecret())
	big.Body = make([]byte, webhook.MaxBody+1)
	if _, err := s.Send(t.Context(), big, time.Now()); err == nil {
		t.Error("a message that is too large was sent")
	}
}

func TestAttemptsAreBoundedAndTakeAboutADay(t *testing.T) {
	var total time.Duration
	for attempt := 1; ; attempt++ {
		least, again := webhook.Retry(attempt, 500, 0)
		most, _ := webhook.Retry(attempt, 500, 1)
		if !again {
			if attempt != webhook.Attempts {
				t.Errorf("%d attempts", attempt)
			}
			break
		}
		if most <= least || most > 2*least {
			t.Errorf("after attempt %d: %v to %v", attempt, least, most)
		}
		total += least
	}
	if total < 20*time.Hour || total > 30*time.Hour {
		t.Errorf("retries for %v", total)
	}
	if _, again := webhook.Retry(1, http.StatusGone, 0); again {
		t.Error("an endpoint that is gone is tried again")
	}
}

func TestAddressesThatCannotBeEndpoints(t *testing.T) {
	for address, want := range map[string]bool{
		"https://example.org/hook?x=1": true, "http://10.0.0.1:8080": true,
		"": false, "example.org": false, "ftp://example.org": false, "https://": false, "https://ann:pw@example.org": false, "https://example.org/#x": false,
	} {
		if got := webhook.CheckURL(address) == ""; got != want {
			t.Errorf("%q is fine: %v", address, got)
		}
	}
}
