package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/cli"
	"github.com/gavel-oj/gavel/internal/httpapi"
	"github.com/gavel-oj/gavel/internal/httpapi/apitest"
)

// handlerTransport calls a handler without any network, so that a run can
// happen in virtual time.
type handlerTransport struct {
	handler http.Handler
	// lose, when set, drops the answers of requests for which it says so.
	lose func(*http.Request) bool
}

func (h *handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	h.handler.ServeHTTP(rec, r)
	if h.lose != nil && h.lose(r) {
		return nil, errors.New("connection reset by peer")
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return rec.Result(), nil
}

type stage struct {
	fake      *apitest.Fake
	transport *handlerTransport
	env       map[string]string
	terminal  bool
	real      *http.Client // instead of the transport
	out, err  bytes.Buffer
}

func newStage() *stage {
	fake := apitest.New()
	handler := httpapi.New(httpapi.Config{Service: fake, Logger: slog.New(slog.DiscardHandler)})
	return &stage{
		fake: fake, transport: &handlerTransport{handler: handler},
		env: map[string]string{"GAVEL_TOKEN": apitest.AdminToken, "COLUMNS": "80"},
	}
}

func (s *stage) run(ctx context.Context, args ...string) int {
	s.out.Reset()
	s.err.Reset()
	grammar := &struct{ cli.Commands }{}
	via := &http.Client{Transport: s.transport}
	if s.real != nil {
		via = s.real
	}
	return cli.Run(ctx, grammar, &grammar.Globals, args, cli.Streams{
		In: strings.NewReader(""), Out: &s.out, Err: &s.err, OutTerminal: s.terminal, ErrTerminal: s.terminal, Columns: 60,
		Getenv: func(k string) string { return s.env[k] }, HTTP: via,
	})
}

func sourceFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "a.py")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestColourIsForTerminalsOnlyAndNeverWithNoColor(t *testing.T) {
	file := sourceFile(t, "# verdict: WA\n")
	for name, tc := range map[string]struct {
		terminal bool
		env      map[string]string
		want     bool
	}{
		"terminal":           {true, nil, true},
		"pipe":               {false, nil, false},
		"NO_COLOR":           {true, map[string]string{"NO_COLOR": "1"}, false},
		"an empty NO_COLOR":  {true, map[string]string{"NO_COLOR": ""}, true},
		"a dumb terminal":    {true, map[string]string{"TERM": "dumb"}, false},
		"machine-made forms": {true, map[string]string{"output": "json"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage()
			s.terminal = tc.terminal
			output := "table"
			for k, v := range tc.env {
				s.env[k] = v
				if k == "output" {
					output = v
				}
			}
			if code := s.run(t.Context(), "submit", file, "-p", "aplusb", "--wait", "-o", output); code != 0 {
				t.Fatalf("exit code %d: %s", code, &s.err)
			}
			if got := strings.Contains(s.out.String(), "\x1b[31mWA\x1b[0m"); got != tc.want {
				t.Errorf("coloured: %v\n%q", got, s.out.String())
			}
			if !tc.want && strings.Contains(s.out.String(), "\x1b") {
				t.Errorf("escapes in %q", s.out.String())
			}
		})
	}
}

func TestTheLiveLineIsWrittenOverOnATerminal(t *testing.T) {
	s := newStage()
	s.terminal = true
	if code := s.run(t.Context(), "submit", sourceFile(t, "print(1)"), "-p", "aplusb", "--wait"); code != 0 {
		t.Fatal(code, s.err.String())
	}
	got := s.err.String()
	for _, want := range []string{"\r\x1b[Ksubmission 1: pending, no free slot", "running 2/3 on home-pc"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	if strings.Contains(got, "\n") || !strings.HasSuffix(got, "\r\x1b[K") {
		t.Errorf("the line is not cleared: %q", got)
	}
}

func TestTextFromElsewhereCannotDriveTheTerminal(t *testing.T) {
	s := newStage()
	s.terminal = true
	s.env["NO_COLOR"] = "1"
	evil := "\x1b]0;owned\x07\x1b[2J\u202e\r"
	s.fake.Known[0].Name, s.fake.Fleet[0].Name = evil, evil
	s.fake.Before(func(_ context.Context, method string) error {
		if method == "Problem" {
			return apperr.New(apperr.NotFound, evil, "%s", evil)
		}
		return nil
	})
	for _, args := range [][]string{{"language", "list"}, {"worker", "list"}, {"worker", "list", "-o", "id"}, {"problem", "show", "x"}} {
		s.run(t.Context(), args...)
		if all := s.out.String() + s.err.String(); strings.ContainsAny(all, "\x1b\x07\r\u202e") {
			t.Errorf("%v: %q", args, all)
		}
	}
}

func TestAWatcherOutlastsARestartOfTheArbiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		if code := s.run(t.Context(), "submit", "-p", "aplusb", "-o", "id", sourceFile(t, "print(1)")); code != 0 {
			t.Fatal(s.err.String())
		}
		calls := 0
		s.fake.Before(func(_ context.Context, method string) error {
			if method != "Submission" {
				return nil
			}
			if calls++; calls > 2 && calls < 9 {
				return apperr.New(apperr.Unavailable, "", "starting")
			}
			return nil
		})
		if code := s.run(t.Context(), "submission", "watch", "1"); code != 0 {
			t.Fatalf("exit code %d: %s", code, &s.err)
		}
		if got := strings.Count(s.err.String(), "does not answer"); got != 1 {
			t.Errorf("said %d times that the arbiter is away:\n%s", got, &s.err)
		}
	})
}

func TestAWatcherGivesUpOnAnArbiterThatStaysAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		s.run(t.Context(), "submit", "-p", "aplusb", "-o", "id", sourceFile(t, "print(1)"))
		calls := 0
		s.fake.Before(func(_ context.Context, method string) error {
			if method == "Submission" {
				if calls++; calls > 1 {
					return apperr.New(apperr.Unavailable, "", "away for good")
				}
			}
			return nil
		})
		start := time.Now()
		if code := s.run(t.Context(), "submission", "watch", "1"); code != cli.ExitUnreachable {
			t.Errorf("exit code %d", code)
		}
		if d := time.Since(start); d < 30*time.Second || d > 5*time.Minute {
			t.Errorf("gave up after %v", d)
		}
		if !strings.Contains(s.err.String(), "away for good") {
			t.Errorf("the last words are not shown: %s", &s.err)
		}
	})
}

func TestALostAnswerDoesNotBecomeASecondSubmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		lost := 0
		s.transport.lose = func(r *http.Request) bool {
			if r.Method == http.MethodPost && lost < 2 {
				lost++
				return true
			}
			return false
		}
		if code := s.run(t.Context(), "submit", "-p", "aplusb", "-o", "id", sourceFile(t, "print(1)")); code != 0 {
			t.Fatalf("exit code %d: %s", code, &s.err)
		}
		if s.out.String() != "1\n" || lost != 2 {
			t.Errorf("lost %d answers, got submission %s", lost, s.out.String())
		}
		s.run(t.Context(), "submission", "list", "-o", "id")
		if s.out.String() != "1\n" {
			t.Errorf("submissions: %s", s.out.String())
		}
	})
}

func TestInterruptedWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		s.run(t.Context(), "submit", "-p", "aplusb", "-o", "id", sourceFile(t, "print(1)"))
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		s.fake.Before(func(ctx context.Context, method string) error {
			if method == "Submission" {
				if calls++; calls > 1 {
					cancel()
					<-ctx.Done()
					return ctx.Err()
				}
			}
			return nil
		})
		if code := s.run(ctx, "submission", "watch", "1"); code != cli.ExitInterrupted {
			t.Errorf("exit code %d", code)
		}
		for _, want := range []string{"interrupted; submission 1 goes on", "gavel submission watch 1 waits again"} {
			if !strings.Contains(s.err.String(), want) {
				t.Errorf("%q lacks %q", s.err.String(), want)
			}
		}
	})
}

func TestExitCodesFollowTheArbitersRefusals(t *testing.T) {
	for code, want := range map[apperr.Code]int{
		apperr.Invalid: 2, apperr.Malformed: 2, apperr.Unauthorized: 6, apperr.Forbidden: 6, apperr.NotFound: 4, apperr.Conflict: 5,
		apperr.Gone: 5, apperr.TooLarge: 2, apperr.Unsupported: 2, apperr.TooMany: 10, apperr.Internal: 1, apperr.Unavailable: 7,
	} {
		s := newStage()
		s.fake.Before(func(context.Context, string) error { return apperr.New(code, "do this", "that is wrong") })
		if got := s.run(t.Context(), "problem", "list"); got != want {
			t.Errorf("%s: exit code %d, want %d", code, got, want)
		}
		lines := strings.Split(strings.TrimSpace(s.err.String()), "\n")
		if len(lines) != 2 || !strings.HasPrefix(lines[0], "gavel: ") || !strings.HasPrefix(lines[1], "hint: ") {
			t.Errorf("%s: not one line and one hint: %q", code, lines)
		}
	}
}

func TestSomethingElseAtTheAddress(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"a page":  func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"a proxy": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "bad gateway", http.StatusBadGateway) },
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://x.invalid", http.StatusFound)
		},
	} {
		s := newStage()
		s.transport.handler = h
		code := s.run(t.Context(), "problem", "list")
		if code == 0 || !strings.Contains(s.err.String(), "hint: ") {
			t.Errorf("%s: exit code %d, %s", name, code, &s.err)
		}
	}
}

// A server that is reached and speaks no TLS, or shows a certificate that nobody
// knows, is not one that has to be started.
func TestTroubleWithTLSIsToldAsThat(t *testing.T) {
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	plain, unknown := httptest.NewServer(http.NotFoundHandler()), httptest.NewUnstartedServer(http.NotFoundHandler())
	unknown.Config.ErrorLog = quiet
	unknown.StartTLS()
	defer plain.Close()
	defer unknown.Close()
	for name, url := range map[string]string{"no TLS": strings.Replace(plain.URL, "http:", "https:", 1), "an unknown certificate": unknown.URL} {
		s := newStage()
		s.real = &http.Client{}
		code := s.run(t.Context(), "problem", "list", "--url", url)
		if code != cli.ExitUnreachable || !strings.Contains(s.err.String(), "hint: somebody answers there, but not by TLS") {
			t.Errorf("%s: exit code %d, %s", name, code, &s.err)
		}
	}
}

func TestEveryCommandHasEveryForm(t *testing.T) {
	s := newStage()
	file := sourceFile(t, "print(1)")
	s.run(t.Context(), "submit", file, "-p", "aplusb")
	for _, args := range [][]string{
		{"submit", file, "-p", "aplusb"},
		{"submission", "list"},
		{"run", file, "-i", file},
		{"submission", "show", "1"},
		{"submission", "watch", "1"},
		{"problem", "list"},
		{"problem", "show", "aplusb"},
		{"worker", "list"},
		{"worker", "invite"},
		{"language", "list"},
		{"version"},
		{"doctor", "--for", "client"},
	} {
		for _, form := range []string{"table", "wide", "json", "jsonl", "id"} {
			code := s.run(t.Context(), append(args, "-o", form)...)
			if code != 0 || s.out.Len() == 0 {
				t.Errorf("%v -o %s: exit code %d, %s%s", args, form, code, &s.out, &s.err)
			}
			if form == "jsonl" && !strings.HasPrefix(s.out.String(), "{") || form == "id" && strings.Contains(s.out.String(), " ") && args[0] != "doctor" {
				t.Errorf("%v -o %s: %s", args, form, &s.out)
			}
		}
	}
}

func TestArgumentsThatAreNotUTF8AreRefusedBeforeAnythingIsSent(t *testing.T) {
	file := sourceFile(t, "# verdict: AC\n")
	for _, args := range [][]string{
		{"submit", file, "-p", "aplusb", "--user", "ann\xff"},
		{"submit", file + "\xff", "-p", "aplusb"},
		{"run", file, "--user=ann\xff"},
		{"rejudge", "start", "-p", "aplusb", "--reason", "ann\xff"},
	} {
		s := newStage()
		s.fake.Before(func(_ context.Context, method string) error {
			t.Errorf("%q: %s was called", args, method)
			return nil
		})
		if code := s.run(t.Context(), args...); code != cli.ExitUsage || !strings.Contains(s.err.String(), `\xff" is not UTF-8`) || !strings.Contains(s.err.String(), "hint: give it in UTF-8") {
			t.Errorf("%q: exit code %d, %s", args, code, &s.err)
		}
	}
}

func TestWhatIsNoFileIsRefusedAndNotWaitedFor(t *testing.T) {
	good := sourceFile(t, "# verdict: AC\n")
	fifo := filepath.Join(filepath.Dir(good), "fifo.py")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	// Opened by a reader that waits, it would hold the test; so somebody comes
	// to write when the test is late.
	late := time.AfterFunc(20*time.Second, func() {
		if f, err := os.OpenFile(fifo, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
			f.Close()
		}
	})
	defer late.Stop()
	for _, args := range [][]string{
		{"submit", fifo, "-p", "aplusb"},
		{"submit", good, fifo, "-p", "aplusb"},
		{"run", good, "-i", fifo},
		{"judge", filepath.Dir(good), fifo},
		{"submission", "list", "--token-file", fifo},
	} {
		s := newStage()
		if code := s.run(t.Context(), args...); code != cli.ExitUsage || !strings.Contains(s.err.String(), "fifo.py: it is not a regular file") || !strings.Contains(s.err.String(), "hint: ") {
			t.Errorf("%q: exit code %d, %s", args, code, &s.err)
		}
	}
}
