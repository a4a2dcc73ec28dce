package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/gavelapi"
)

func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := New(s.URL, "gvl_w_secret", Options{Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// answer writes v as JSON with the status.
func answer(w http.ResponseWriter, status int, ctype string, v any) {
	w.Header().Set("Content-Type", ctype)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func TestEachCallUsesItsMethodPathAndHeaders(t *testing.T) {
	type seen struct{ Method, URI, Auth, Protocol, CType, Body string }
	var got seen
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got = seen{r.Method, r.RequestURI, r.Header.Get("Authorization"), r.Header.Get(gavelapi.ProtocolHeader), r.Header.Get("Content-Type"), string(b)}
		answer(w, 200, "application/json", struct{}{})
	})
	const auth, js = "Bearer gvl_w_secret", "application/json"
	ctx := t.Context()
	for name, tc := range map[string]struct {
		call func() error
		want seen
	}{
		"heartbeat": {
			func() error { _, err := c.Heartbeat(ctx, gavelapi.HeartbeatRequest{LeaseToken: "L"}); return err },
			seen{"POST", "/v1/worker/heartbeat", auth, "1", js, `{"lease_token":"L"}`},
		},
		"release": {func() error {
			_, err := c.Release(ctx, gavelapi.ReleaseRequest{LeaseToken: "L", Reason: "shutdown"})
			return err
		}, seen{"POST", "/v1/worker/release", auth, "1", js, `{"lease_token":"L","reason":"shutdown"}`}},
		"enrol": {
			func() error { _, err := c.Enrol(ctx, gavelapi.EnrolRequest{Invitation: "I", Name: "w"}); return err },
			seen{"POST", "/v1/worker/enrol", auth, "1", js, `{"invitation":"I","name":"w"}`},
		},
		"submission get with wait": {
			func() error { _, err := c.SubmissionGet(ctx, 7, 25*time.Second); return err },
			seen{"GET", "/v1/submissions/7?wait=25s", auth, "", "", ""},
		},
		"submission list": {func() error {
			_, err := c.SubmissionList(ctx, SubmissionFilter{Problem: "a b", State: "done"}, "CUR", 5)
			return err
		}, seen{"GET", "/v1/submissions?cursor=CUR&limit=5&problem=a+b&state=done", auth, "", "", ""}},
		"submission cancel": {
			func() error { _, err := c.SubmissionCancel(ctx, 9, ""); return err },
			seen{"POST", "/v1/submissions/9/cancel", auth, "", "", ""},
		},
		"problem import": {
			func() error {
				_, err := c.ProblemImport(ctx, Import{Name: "sum", Verify: "none", Reason: "known good"}, strings.NewReader("PK"))
				return err
			},
			seen{"POST", "/v1/problems?name=sum&reason=known+good&verify=none", auth, "", "application/zip", "PK"},
		},
		"problem get": {
			func() error { _, err := c.ProblemGet(ctx, "sum"); return err },
			seen{"GET", "/v1/problems/sum", auth, "", "", ""},
		},
		"problem report": {
			func() error { _, err := c.ProblemReport(ctx, "sum", 7, 25*time.Second); return err },
			seen{"GET", "/v1/problems/sum/report?id=7&wait=25s", auth, "", "", ""},
		},
		"problem list": {func() error { _, err := c.ProblemList(ctx, "", 0); return err }, seen{"GET", "/v1/problems", auth, "", "", ""}},
		"languages":    {func() error { _, err := c.LanguageList(ctx); return err }, seen{"GET", "/v1/languages", auth, "", "", ""}},
		"workers":      {func() error { _, err := c.WorkerList(ctx); return err }, seen{"GET", "/v1/workers", auth, "", "", ""}},
		"invite": {
			func() error { _, err := c.WorkerInvite(ctx, gavelapi.NewInvitation{Pool: "home"}); return err },
			seen{"POST", "/v1/workers/invitations", auth, "", js, `{"pool":"home"}`},
		},
		"version": {func() error { _, err := c.Version(ctx); return err }, seen{"GET", "/v1/version", auth, "", "", ""}},
		"alive":   {func() error { _, err := c.Alive(ctx); return err }, seen{"GET", "/healthz", auth, "", "", ""}},
		"ready":   {func() error { _, err := c.Ready(ctx); return err }, seen{"GET", "/readyz", auth, "", "", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tc.call(); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// An arbiter of a later version may say more than this program knows.
func TestFieldsThatAreNotKnownAreIgnored(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"leases":[{"job_id":7,"kind":"judge","lease_token":"t","mood":{"good":[1]},"limits":{"cpu_us":5,"joules":9}}],"weather":"fine"}`)
	})
	resp, err := c.Claim(t.Context(), gavelapi.ClaimRequest{RequestID: "r"})
	if err != nil || len(resp.Leases) != 1 || resp.Leases[0].JobID != 7 || resp.Leases[0].Limits.CPUUS != 5 {
		t.Errorf("got %+v, %v", resp, err)
	}
}

func TestEmptyClaimIsNoError(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) })
	resp, err := c.Claim(t.Context(), gavelapi.ClaimRequest{RequestID: "r"})
	if err != nil || resp == nil || len(resp.Leases) != 0 {
		t.Errorf("got %+v, %v", resp, err)
	}
}

func TestIdempotencyKeyIsSentAndMadeUpWhenMissing(t *testing.T) {
	var keys []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get(gavelapi.IdempotencyKeyHeader))
		answer(w, 201, "application/json", gavelapi.Submission{ID: 3})
	})
	for _, k := range []string{"mine", "", ""} {
		if _, err := c.SubmissionCreate(t.Context(), gavelapi.NewSubmission{}, k); err != nil {
			t.Fatal(err)
		}
	}
	if keys[0] != "mine" || keys[1] == "" || keys[1] == keys[2] {
		t.Errorf("keys: %q", keys)
	}
}

func TestAnswersAreClassified(t *testing.T) {
	for name, tc := range map[string]struct {
		h         http.HandlerFunc
		status    int  // of a Problem, 0 when Unreachable is wanted
		temporary bool // asking again can help
		after     time.Duration
		text      string
	}{
		"a lease that is gone": {func(w http.ResponseWriter, r *http.Request) {
			answer(w, 410, "application/problem+json", gavelapi.Problem{Title: "gone", Reason: gavelapi.LeaseExpired})
		}, 410, false, 0, "gone"},
		"unavailable with Retry-After": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "7")
			answer(w, 503, "application/problem+json; charset=utf-8", gavelapi.Problem{Title: "no leader"})
		}, 503, true, 7 * time.Second, "no leader"},
		"retry_after_ms in the body": {func(w http.ResponseWriter, r *http.Request) {
			answer(w, 429, "application/problem+json", gavelapi.Problem{Title: "slow down", RetryAfterMS: 1500})
		}, 429, true, 1500 * time.Millisecond, "slow down"},
		"Retry-After as a date": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Date", "Mon, 02 Jan 2006 15:04:05 GMT")
			w.Header().Set("Retry-After", "Mon, 02 Jan 2006 15:04:15 GMT")
			answer(w, 503, "application/problem+json", gavelapi.Problem{Title: "later"})
		}, 503, true, 10 * time.Second, "later"},
		"a proxy's page": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "3")
			answer(w, 502, "text/html", "bad gateway")
		}, 0, true, 3 * time.Second, "something in front of it answered 502"},
		"somebody else's 404": {func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }, 404, false, 0, "check that the URL"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://elsewhere/", http.StatusTemporaryRedirect)
		}, 307, false, 0, "redirects"},
		"a page with status 200": {func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "<html>log in to the hotel network</html>")
		}, 0, true, 0, "is this the arbiter's address"},
		"an answer that breaks off": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, `{"version":`)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, 0, true, 0, "broke off"},
		"a connection that closes": {func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }, 0, true, 0, "no answer from the arbiter at http://127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, tc.h)
			_, err := c.Version(t.Context())
			if err == nil {
				t.Fatal("no error")
			}
			_, isUnreachable := errors.AsType[*Unreachable](err)
			if StatusOf(err) != tc.status || isUnreachable != (tc.status == 0) {
				t.Errorf("status %d, unreachable %v: %v", StatusOf(err), isUnreachable, err)
			}
			after, temporary := Temporary(err)
			if after != tc.after || temporary != tc.temporary {
				t.Errorf("temporary: got %v %v, want %v %v", after, temporary, tc.after, tc.temporary)
			}
			if !strings.Contains(err.Error(), tc.text) {
				t.Errorf("%q does not contain %q", err, tc.text)
			}
		})
	}
}

func TestSilentArbiterIsUnreachableAfterTheTimeout(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-release }))
	defer s.Close()
	defer close(release)
	c, err := New(s.URL, "", Options{Timeout: 30 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Version(t.Context())
	if u, ok := errors.AsType[*Unreachable](err); !ok || !errors.Is(u, errCallTimeout) {
		t.Errorf("got %v", err)
	}
}

func TestCallersOwnCancellationIsNotUnreachable(t *testing.T) {
	mine := errors.New("mine")
	ctx, cancel := context.WithCancelCause(t.Context())
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server notice a closed connection
		cancel(mine)
		<-r.Context().Done()
	})
	_, err := c.Claim(ctx, gavelapi.ClaimRequest{WaitMS: 25000})
	if _, ok := errors.AsType[*Unreachable](err); ok || !errors.Is(err, mine) {
		t.Errorf("got %v", err)
	}
}

func TestReadyReportsTheFailingChecks(t *testing.T) {
	want := gavelapi.Health{Status: "unavailable", Checks: map[string]string{"database": "down"}}
	c := serve(t, func(w http.ResponseWriter, r *http.Request) { answer(w, 503, "application/json", want) })
	got, err := c.Ready(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(&want, got); d != "" {
		t.Error(d)
	}
}

func TestBadAddressesAndTokensAreRefusedWithACure(t *testing.T) {
	for in, want := range map[string]string{
		"":                      "GAVEL_URL",
		"127.0.0.1:7272":        "not an http or https URL",
		"ftp://x":               "not an http or https URL",
		"http://u:pw@h":         "never into the URL",
		"http://h/?a=b":         "must not have a query",
		"http://127.0.0.1:7272": "",
	} {
		_, err := New(in, "t", Options{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", in, err)
		}
		if err != nil && strings.Contains(err.Error(), "pw") {
			t.Errorf("%q: the password is in the message: %v", in, err)
		}
	}
	if _, err := New("http://h", "to ken\n", Options{}); err == nil || strings.Contains(err.Error(), "ken\n") {
		t.Errorf("token with white space: %v", err)
	}
}

func TestTokenIsNotPrintedWithTheClient(t *testing.T) {
	c, err := New("http://h", "gvl_w_secret", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s := fmt.Sprintf("%v %+v %#v", c, *c, *c); strings.Contains(s, "secret") {
		t.Errorf("printed: %s", s)
	}
}

func TestPackageIsFetchedFromAnOffset(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789"), 1000)
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(PackageDigestHeader, "sha256:aa")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	})
	for _, off := range []int64{0, 1, 9999} {
		s, err := c.FetchPackage(t.Context(), "sha256:aa", off)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(s.Body)
		s.Body.Close()
		if err != nil || s.Offset != off || !bytes.Equal(got, content[off:]) || off == 0 && s.TotalBytes != 10000 {
			t.Errorf("offset %d: got %d bytes from %d of %d, %v", off, len(got), s.Offset, s.TotalBytes, err)
		}
	}
	if _, err := c.FetchPackage(t.Context(), "sha256:aa", 10001); StatusOf(err) != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("past the end: %v", err)
	}
	if _, err := c.FetchPackage(t.Context(), "sha256:bb", 0); err == nil {
		t.Error("another package than asked for was accepted")
	}
}

func TestServerThatIgnoresRangesSendsFromTheStart(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "whole") })
	s, err := c.FetchPackage(t.Context(), "sha256:aa", 3)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Body.Close()
	if got, _ := io.ReadAll(s.Body); string(got) != "whole" || s.Offset != 0 {
		t.Errorf("got %q from %d", got, s.Offset)
	}
}

func TestStalledDownloadEnds(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "some")
		w.(http.Flusher).Flush()
		<-release
	}))
	defer s.Close()
	defer close(release)
	c, err := New(s.URL, "", Options{StallTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p, err := c.FetchPackage(t.Context(), "sha256:aa", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Body.Close()
	got, err := io.ReadAll(p.Body)
	if string(got) != "some" || !errors.Is(err, ErrStalled) {
		t.Errorf("got %q, %v", got, err)
	}
	if _, temporary := Temporary(err); !temporary {
		t.Errorf("a stall is not temporary: %v", err)
	}
}
