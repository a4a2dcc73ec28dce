package httpapi_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gavel-oj/gavel/internal/httpapi"
	"github.com/gavel-oj/gavel/internal/httpapi/apitest"
)

// pipeListener serves connections that are net.Pipes, so that a whole server
// lives in virtual time.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { close(l.done); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// inBubble runs a server over pipes; dial makes a connection to it.
func inBubble(t *testing.T, fake *apitest.Fake, test func(t *testing.T, dial func() net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		logger := slog.New(slog.DiscardHandler)
		l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
		srv := httpapi.NewServer(httpapi.New(httpapi.Config{Service: fake, Logger: logger, TempDir: t.TempDir()}), logger)
		srv.Protocols = &http.Protocols{}
		srv.Protocols.SetHTTP1(true)
		srv.Protocols.SetUnencryptedHTTP2(true)
		served := make(chan error)
		go func() { served <- srv.Serve(l) }()
		test(t, func() net.Conn {
			client, server := net.Pipe()
			l.conns <- server
			return client
		})
		srv.Close()
		<-served
	})
}

// send writes without blocking the test when the server has stopped reading.
func send(c net.Conn, text string) { go func() { _, _ = io.WriteString(c, text) }() }

func head(method, path, token string, length int) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nGavel-Protocol: 1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", method, path, token, length)
}

func answerOf(t *testing.T, c net.Conn) (int, string) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body)
}

func TestALongPollOutlivesTheDeadlineOfItsBody(t *testing.T) {
	fake := apitest.New()
	fake.Before(func(ctx context.Context, method string) error {
		if method != "Claim" {
			return nil
		}
		select {
		case <-time.After(25 * time.Second):
			return nil
		case <-ctx.Done():
			return fmt.Errorf("the request's context ended: %w", ctx.Err())
		}
	})
	inBubble(t, fake, func(t *testing.T, dial func() net.Conn) {
		c := dial()
		defer c.Close()
		body := strings.Replace(goodClaim, `"wait_ms":0`, `"wait_ms":25000`, 1)
		start := time.Now()
		send(c, head("POST", "/v1/worker/claim", apitest.WorkerToken, len(body))+body)
		status, text := answerOf(t, c)
		if status != 200 || time.Since(start) != 25*time.Second {
			t.Errorf("%d after %v: %s", status, time.Since(start), text)
		}
		// The same connection serves on after minutes of silence.
		time.Sleep(100 * time.Second) // virtual
		send(c, head("POST", "/v1/worker/heartbeat", apitest.WorkerToken, len(goodHeartbeat))+goodHeartbeat)
		if status, text = answerOf(t, c); status != 200 {
			t.Errorf("heartbeat on the same connection: %d %s", status, text)
		}
	})
}

// With TLS connections are HTTP/2, where a deadline that passes resets the
// stream whether somebody is writing or not.
func TestALongPollOutlivesDeadlinesOverHTTP2(t *testing.T) {
	fake := apitest.New()
	fake.Before(func(ctx context.Context, method string) error {
		if method != "Claim" {
			return nil
		}
		select {
		case <-time.After(25 * time.Second):
			return nil
		case <-ctx.Done():
			return fmt.Errorf("the request's context ended: %w", ctx.Err())
		}
	})
	inBubble(t, fake, func(t *testing.T, dial func() net.Conn) {
		tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return dial(), nil }}
		tr.Protocols = &http.Protocols{}
		tr.Protocols.SetUnencryptedHTTP2(true)
		defer tr.CloseIdleConnections()
		for _, tc := range []struct {
			path, body string
		}{{"/v1/worker/claim", goodClaim}, {"/v1/worker/heartbeat", goodHeartbeat}} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x"+tc.path, strings.NewReader(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+apitest.WorkerToken)
			req.Header.Set("Gavel-Protocol", "1")
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatalf("%s: %v", tc.path, err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 || err != nil {
				t.Errorf("%s: %s %d, %v: %s", tc.path, resp.Proto, resp.StatusCode, err, body)
			}
		}
	})
}

func TestAClientThatLeavesEndsItsLongPoll(t *testing.T) {
	ended := make(chan struct{})
	fake := apitest.New()
	fake.Before(func(ctx context.Context, method string) error {
		if method == "Claim" {
			<-ctx.Done()
			close(ended)
			return ctx.Err()
		}
		return nil
	})
	inBubble(t, fake, func(t *testing.T, dial func() net.Conn) {
		c := dial()
		send(c, head("POST", "/v1/worker/claim", apitest.WorkerToken, len(goodClaim))+goodClaim)
		synctest.Wait()
		c.Close()
		<-ended
	})
}

func TestSlowClientsAreDropped(t *testing.T) {
	const full = `{"problem":"aplusb","language":"cpp17","source":"x"}`
	for name, tc := range map[string]struct {
		first string
		drip  time.Duration // one more byte each time; 0: silence
		atMax time.Duration
		want  int
	}{
		"a header that never ends":          {"GET / HTTP/1.1\r\nHost: x\r\nX-A: ", 0, 11 * time.Second, 0},
		"a header that drips":               {"GET / HTTP/1.1\r\nHost: x\r\nX-A: ", time.Second, 11 * time.Second, 0},
		"a body that stops":                 {head("POST", "/v1/submissions", apitest.SiteToken, len(full)) + full[:5], 0, 23 * time.Second, 408},
		"a body that drips":                 {head("POST", "/v1/submissions", apitest.SiteToken, 4000) + full[:5], 10 * time.Second, 2*time.Minute + 5*time.Second, 408},
		"an upload that stops":              {strings.Replace(head("POST", "/v1/problems", apitest.AdminToken, 1<<20), "application/json", "application/zip", 1) + "PK", 0, 23 * time.Second, 408},
		"an upload that drips":              {strings.Replace(head("POST", "/v1/problems", apitest.AdminToken, 1<<20), "application/json", "application/zip", 1) + "PK", 19 * time.Second, time.Hour + time.Minute, 408},
		"a refused body that never arrives": {head("POST", "/v1/submissions", "", 1000) + "{", 0, 5 * time.Second, 401},
		"a refused body that drips":         {head("POST", "/v1/submissions", "", 200_000) + "{", 10 * time.Second, 5 * time.Second, 401},
		"a connection without a request":    {"", 0, 3 * time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, apitest.New(), func(t *testing.T, dial func() net.Conn) {
				c := dial()
				defer c.Close()
				stop := make(chan struct{})
				defer close(stop)
				go func() {
					if _, err := io.WriteString(c, tc.first); err != nil || tc.drip == 0 {
						return
					}
					for {
						select {
						case <-stop:
							return
						case <-time.After(tc.drip):
							if _, err := c.Write([]byte("x")); err != nil {
								return
							}
						}
					}
				}()
				start := time.Now()
				var got []byte
				buf := make([]byte, 4096)
				for {
					n, err := c.Read(buf)
					got = append(got, buf[:n]...)
					if err != nil {
						break
					}
				}
				if took := time.Since(start); took > tc.atMax {
					t.Errorf("the connection was held for %v", took)
				}
				if tc.want != 0 && !strings.HasPrefix(string(got), fmt.Sprintf("HTTP/1.1 %d ", tc.want)) {
					t.Errorf("answer %.200q, want status %d", got, tc.want)
				}
			})
		})
	}
}

func TestAClientThatStopsReadingIsDropped(t *testing.T) {
	inBubble(t, apitest.New(), func(t *testing.T, dial func() net.Conn) {
		c := dial()
		defer c.Close()
		send(c, head("GET", "/v1/worker/packages/"+apitest.Digest, apitest.WorkerToken, 0))
		one := make([]byte, 1)
		if _, err := io.ReadFull(c, one); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // virtual: longer than one write may take
		rest, err := io.ReadAll(c)
		if err != nil {
			t.Fatal(err)
		}
		if len(rest) >= len(apitest.Package) {
			t.Error("the download went on after a minute without reading")
		}
	})
}

func TestADownloadMayTakeLongerThanOneWrite(t *testing.T) {
	inBubble(t, apitest.New(), func(t *testing.T, dial func() net.Conn) {
		c := dial()
		defer c.Close()
		send(c, head("GET", "/v1/worker/packages/"+apitest.Digest, apitest.WorkerToken, 0))
		resp, err := http.ReadResponse(bufio.NewReaderSize(c, 1024), nil)
		if err != nil {
			t.Fatal(err)
		}
		buf, total := make([]byte, 2048), 0
		for {
			n, err := io.ReadFull(resp.Body, buf)
			total += n
			if err != nil {
				break
			}
			time.Sleep(time.Second) // virtual: 2 KiB/s
		}
		if total != len(apitest.Package) {
			t.Errorf("%d of %d bytes arrived", total, len(apitest.Package))
		}
	})
}

func TestNewServerHasNoTimeoutThatCutsLongPolls(t *testing.T) {
	srv := httpapi.NewServer(http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	if srv.WriteTimeout != 0 || srv.ReadTimeout != 0 || srv.ReadHeaderTimeout == 0 || srv.IdleTimeout == 0 {
		t.Errorf("timeouts: write %v, read %v, header %v, idle %v", srv.WriteTimeout, srv.ReadTimeout, srv.ReadHeaderTimeout, srv.IdleTimeout)
	}
}
