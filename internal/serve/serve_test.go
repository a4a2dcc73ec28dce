package serve_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/serve"
	"github.com/gavel-oj/gavel/internal/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

func configFor(t *testing.T) serve.Config {
	t.Helper()
	return serve.Config{
		DatabaseURL: storetest.DB(t), DataDir: filepath.Join(t.TempDir(), "data"), Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
	}
}

// free reports whether an address can be listened on.
func free(t *testing.T, address string) bool {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", address)
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func TestWhatCannotBeServedIsRefusedAndNothingStays(t *testing.T) {
	var lc net.ListenConfig
	taken, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	spare, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := spare.Addr().String()
	if err := spare.Close(); err != nil {
		t.Fatal(err)
	}
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(*serve.Config)
		code   apperr.Code
		text   string
	}{
		"address taken":             {func(c *serve.Config) { c.Listen = taken.Addr().String() }, apperr.Conflict, "is taken"},
		"no address":                {func(c *serve.Config) { c.Listen = "nonsense" }, apperr.Invalid, "cannot listen"},
		"certificate without a key": {func(c *serve.Config) { c.TLSCert = "c.pem" }, apperr.Invalid, "needs its key"},
		"data directory is a file":  {func(c *serve.Config) { c.DataDir = blocked }, apperr.Invalid, "cannot be used"},
		"no such database":          {func(c *serve.Config) { c.DatabaseURL = storetest.DB(t) + "&dbname=none_such" }, apperr.Unavailable, "cannot connect"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := configFor(t)
			cfg.Listen = address
			tt.change(&cfg)
			srv, err := serve.Start(t.Context(), cfg)
			if err == nil {
				_ = srv.Close(t.Context())
				t.Fatal("it started")
			}
			e, ok := errors.AsType[*apperr.Error](err)
			if !ok || e.Code != tt.code || !strings.Contains(e.Error(), tt.text) || e.Hint == "" {
				t.Errorf("error %#v", err)
			}
			if !free(t, address) {
				t.Error("the address is still held after the start failed")
			}
		})
	}
}

func TestAStartedServerAnswersAndKeepsItsAdministratorsToken(t *testing.T) {
	cfg := configFor(t)
	srv, err := serve.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := srv.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	file := filepath.Join(t.TempDir(), "token")
	first, err := srv.AdminToken(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("token file: %v, %v", st, err)
	}
	if again, err := srv.AdminToken(t.Context(), file); err != nil || again != first {
		t.Errorf("a good token was replaced: %v", err)
	}
	if err := os.WriteFile(file, []byte("gvl_a_forged\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fresh, err := srv.AdminToken(t.Context(), file)
	if err != nil || fresh == first || fresh == "gvl_a_forged" {
		t.Errorf("a token that is not good stayed: %v", err)
	}
	if raw, err := os.ReadFile(file); err != nil || strings.TrimSpace(string(raw)) != fresh {
		t.Errorf("the file holds %q, %v", raw, err)
	}
	if _, err := srv.AdminToken(t.Context(), filepath.Join(t.TempDir(), "none", "token")); apperr.CodeOf(err) != apperr.Forbidden {
		t.Errorf("a token that cannot be kept: %v", err)
	}
}

// awaitLeader waits until the arbiter grants.
func awaitLeader(t *testing.T, api *client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := api.Ready(ctx); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("the arbiter does not lead")
		}
	}
}

// A stop resigns first, so that a standby takes over at once; it sends waiting
// claims away instead of waiting for them; and then nothing listens any more.
func TestStoppingIsOrderlyAndDoesNotWaitForWaitingClaims(t *testing.T) {
	cfg := configFor(t)
	srv, err := serve.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	token, err := srv.AdminToken(t.Context(), filepath.Join(t.TempDir(), "token"))
	if err != nil {
		t.Fatal(err)
	}
	connect := func(token string) *client.Client {
		c, err := client.New(srv.URL(), token, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	admin := connect(token)
	awaitLeader(t, admin)
	invitation, err := admin.WorkerInvite(t.Context(), gavelapi.NewInvitation{})
	if err != nil {
		t.Fatal(err)
	}
	who, err := admin.Enrol(t.Context(), gavelapi.EnrolRequest{Invitation: invitation.Code, Name: "w"})
	if err != nil {
		t.Fatal(err)
	}
	var stopping atomic.Bool
	claimed := make(chan error, 1)
	worker := connect(who.Token)
	go func() {
		for {
			_, err := worker.Claim(t.Context(), gavelapi.ClaimRequest{
				RequestID: "7c0ffee0-0000-4000-8000-000000000001", Session: "7c0ffee0-0000-4000-8000-000000000002",
				Slots: 1, TotalSlots: 1, WaitMS: 25_000, Capabilities: gavelapi.Capabilities{Languages: []gavelapi.LanguageOffer{{ID: "c", Version: "1"}}},
			})
			if stopping.Load() || client.StatusOf(err) != http.StatusServiceUnavailable {
				claimed <- err
				return
			} // a busy machine may lose its leadership for a moment
		}
	}()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for online := false; !online; { // the claim is waiting
		list, err := admin.WorkerList(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		online = len(list.Workers) == 1 && list.Workers[0].State == "idle"
		select {
		case err := <-claimed:
			t.Fatalf("the claim ended: %v", err)
		case <-tick.C:
		}
	}
	address := strings.TrimPrefix(srv.URL(), "http://")
	stopping.Store(true)
	begun := time.Now()
	if err := srv.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("stopping took %v", took)
	}
	if err := <-claimed; client.StatusOf(err) != http.StatusServiceUnavailable {
		t.Errorf("the waiting claim got %v, want a 503", err)
	}
	if !free(t, address) {
		t.Error("something still listens")
	}
	conn, err := pgx.Connect(t.Context(), cfg.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	var resigned bool
	if err := conn.QueryRow(t.Context(), "select expires_at <= now() from leadership where shard = 0").Scan(&resigned); err != nil || !resigned {
		t.Errorf("leadership was not resigned: %v", err)
	}
}

func TestWaitEndsWithItsContextOrWithTheServer(t *testing.T) {
	srv, err := serve.Start(t.Context(), configFor(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := srv.Wait(ctx); err != nil {
		t.Errorf("after its context: %v", err)
	}
	if err := srv.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := srv.Wait(t.Context()); !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("after the server: %v", err)
	}
}

func TestTLSIsSpokenWithACertificateThatCanBeRead(t *testing.T) {
	cfg := configFor(t)
	cfg.TLSCert, cfg.TLSKey = "/nowhere/c.pem", "/nowhere/k.pem"
	srv, err := serve.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := srv.Wait(ctx); err == nil || !strings.Contains(err.Error(), "c.pem") {
		t.Errorf("serving without its certificate: %v", err)
	}
	if err := srv.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
