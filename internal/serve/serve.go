// Package serve puts the arbiter together with its database, its blobs and its
// HTTP interface: a program as a value that `gavel serve`, `gavel up` and
// tests start on any address. Each step that fails says what is missing and
// undoes the ones before it.
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/alarm"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/arbiter"
	"github.com/gavel-oj/gavel/internal/blob/dirblob"
	"github.com/gavel-oj/gavel/internal/buildinfo"
	"github.com/gavel-oj/gavel/internal/clock"
	"github.com/gavel-oj/gavel/internal/health"
	"github.com/gavel-oj/gavel/internal/httpapi"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/lease"
	"github.com/gavel-oj/gavel/internal/store"
)

// Config says what to serve and where.
type Config struct {
	DatabaseURL string
	DataDir     string // blobs and uploads on their way in; made when missing
	Listen      string // host:port; port 0 picks a free one
	// Listener is one of Listen that is open already; Start takes it over.
	Listener          net.Listener
	TLSCert           string // PEM files; both or none
	TLSKey            string
	MaxUpload         int64          // bytes; 0 is the API's default
	MaxBody           int64          // bytes of any other call; 0 is the API's default
	RunKeep           time.Duration  // of results of runs; 0 is the default
	MaxWaitingPerUser int            // submissions and runs of one user that may wait; 0 is any number
	Lease             lease.Settings // zero is lease.DefaultSettings
	Leader            arbiter.LeaderSettings
	Health            health.Settings // zero judges nobody's health
	SleepLead         time.Duration   // before planned hours; 0 is arbiter.DefaultSleepLead
	Alarms            alarm.Settings  // zero is alarm.Default
	WebhookPrivate    bool            // webhooks may go to addresses that are not public
	Logger            *slog.Logger
	Clock             clock.Clock
}

// Server is a running arbiter.
type Server struct {
	Arbiter *arbiter.Arbiter

	cfg      Config
	db       *store.DB
	blobs    *dirblob.Store
	http     *http.Server
	listener net.Listener
	stop     context.CancelFunc // ends the arbiter
	led      chan error         // what the arbiter ended with
	served   chan error         // what the HTTP server ended with
}

// stopWait bounds each step of an orderly stop.
const stopWait = 5 * time.Second

// Start migrates the database, listens, and begins to stand for leadership. It
// returns when requests are answered; the arbiter is ready a moment later.
func Start(ctx context.Context, cfg Config) (_ *Server, err error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.System{}
	}
	if cfg.Lease == (lease.Settings{}) {
		cfg.Lease = lease.DefaultSettings
	}
	if (cfg.TLSCert == "") != (cfg.TLSKey == "") {
		return nil, apperr.New(apperr.Invalid, "give both --tls-cert and --tls-key, or none", "a TLS certificate needs its key")
	}
	s := &Server{cfg: cfg, led: make(chan error, 1), served: make(chan error, 1)}
	defer func() {
		if err != nil {
			s.release()
		}
	}()
	// The address first: it is the cheapest to find out and the commonest to be
	// taken. Then the database, so that without one no directory is made.
	if s.listener = cfg.Listener; s.listener == nil {
		if s.listener, err = Listen(ctx, cfg.Listen); err != nil {
			return nil, err
		}
	}
	if err := store.Migrate(ctx, cfg.DatabaseURL); err != nil {
		return nil, err
	}
	if s.db, err = store.Open(ctx, cfg.DatabaseURL, store.Options{}); err != nil {
		return nil, err
	}
	tmp := filepath.Join(cfg.DataDir, "tmp")
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return nil, apperr.Wrap(err, apperr.Invalid, "choose a directory that this user may write, or change its owner",
			"the data directory %s cannot be used", cfg.DataDir)
	}
	if s.blobs, err = dirblob.Open(filepath.Join(cfg.DataDir, "blobs")); err != nil {
		return nil, err
	}
	if err := s.blobs.Check(ctx); err != nil {
		return nil, err
	}
	languages, err := language.Builtin()
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	s.Arbiter, err = arbiter.New(arbiter.Config{
		DB: s.db, DatabaseURL: cfg.DatabaseURL, Blobs: s.blobs, Languages: languages, Lease: cfg.Lease, Leader: cfg.Leader,
		Health: cfg.Health, SleepLead: cfg.SleepLead, Alarms: cfg.Alarms, WebhookPrivate: cfg.WebhookPrivate,
		Holder: fmt.Sprintf("%s/%d", host, os.Getpid()), Clock: cfg.Clock, Logger: cfg.Logger,
		Runs: runSettings(cfg), MaxWaitingPerUser: cfg.MaxWaitingPerUser,
	})
	if err != nil {
		return nil, err
	}
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(s.Arbiter, place{cfg.DataDir})
	handler := httpapi.New(httpapi.Config{
		Service: s.Arbiter, Logger: cfg.Logger, Metrics: metrics, MaxUploadBytes: cfg.MaxUpload, MaxBodyBytes: cfg.MaxBody, TempDir: tmp, Clock: cfg.Clock,
		Build: gavelapi.Version{Version: buildinfo.Version, Commit: buildinfo.Commit, Go: buildinfo.Go, Protocol: gavelapi.ProtocolVersion},
	})
	s.http = httpapi.NewServer(handler, cfg.Logger)

	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	go func() { s.led <- s.Arbiter.Run(running) }()
	go func() {
		if cfg.TLSCert != "" {
			s.served <- s.http.ServeTLS(s.listener, cfg.TLSCert, cfg.TLSKey)
			return
		}
		s.served <- s.http.Serve(s.listener)
	}()
	cfg.Logger.Info("listening", "url", s.URL())
	return s, nil
}

// runSettings keep what runs send within the bodies that the API takes: inputs
// in claims and requests, outputs in results. Both travel as base64.
func runSettings(cfg Config) arbiter.RunSettings {
	s := arbiter.DefaultRunSettings
	if cfg.RunKeep > 0 {
		s.Keep = cfg.RunKeep
	}
	if cfg.MaxBody > 0 {
		s.InputBytes = min(s.InputBytes, cfg.MaxBody/2)
		s.OutputBytes = min(s.OutputBytes, 2*cfg.MaxBody) // a result may have four times that
	}
	return s
}

// Listen opens an address, or says what is wrong with it.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, apperr.Wrap(err, apperr.Conflict, "stop what listens there (ss -ltnp shows it), or choose another address with --listen",
			"the address %s is taken", address)
	case errors.Is(err, syscall.EACCES):
		return nil, apperr.Wrap(err, apperr.Forbidden, "choose a port from 1024 on with --listen, or grant CAP_NET_BIND_SERVICE",
			"this user may not listen on %s", address)
	default:
		return nil, apperr.Wrap(err, apperr.Invalid, "give --listen as host:port, e.g. 127.0.0.1:8080", "cannot listen on %q", address)
	}
}

// URL is where the API answers.
func (s *Server) URL() string {
	scheme := "http"
	if s.cfg.TLSCert != "" {
		scheme = "https"
	}
	addr, ok := s.listener.Addr().(*net.TCPAddr)
	if !ok {
		return scheme + "://" + s.listener.Addr().String()
	}
	host := addr.IP.String()
	if addr.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, fmt.Sprint(addr.Port))
}

// Wait returns when ctx ends (nil) or serving fails. Close must follow.
func (s *Server) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.served:
		s.served <- err
		return fmt.Errorf("http server: %w", err)
	}
}

// Close stops in order: no new requests, waiting claims sent away and
// leadership resigned, requests in hand answered, connections closed.
func (s *Server) Close(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	s.stop()
	var errs []error
	step := func(name string, do func(ctx context.Context) error) {
		ctx, cancel := context.WithTimeout(ctx, stopWait)
		defer cancel()
		if err := do(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", name, err))
		}
	}
	step("leading", func(ctx context.Context) error {
		select {
		case err := <-s.led:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	step("http", func(ctx context.Context) error {
		if err := s.http.Shutdown(ctx); err != nil {
			return s.http.Close() // a request that does not end is cut off
		}
		return nil
	})
	s.release()
	return errors.Join(errs...)
}

// release gives back what Start has taken so far.
func (s *Server) release() {
	if s.stop != nil {
		s.stop()
	}
	if s.db != nil {
		s.db.Close()
	}
	if s.blobs != nil {
		if err := s.blobs.Close(); err != nil {
			s.cfg.Logger.Warn("closing the blob store failed", "error", err)
		}
	}
	if s.listener != nil {
		_ = s.listener.Close() // already closed by the HTTP server when it ran
	}
}
