package e2e

import (
	"archive/zip"
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/sandbox/linuxbox"
	"github.com/gavel-oj/gavel/internal/serve"
	"github.com/gavel-oj/gavel/internal/store/storetest"
	"github.com/gavel-oj/gavel/internal/testkit"
	"github.com/gavel-oj/gavel/internal/worker"
)

// bench is an arbiter and a worker in this process: real ones, on a real
// PostgreSQL, HTTP and boxes, without the time that building and starting
// programs takes.
type bench struct {
	api     *client.Client
	changed chan struct{}

	mu   sync.Mutex
	caps gavelapi.Capabilities
}

func (b *bench) offers() gavelapi.Capabilities {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.caps
}

// offer adds a language to what the worker offers.
func (b *bench) offer(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.caps.Languages = append(slices.Clone(b.caps.Languages), gavelapi.LanguageOffer{ID: id, Version: "installed"})
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// newBench starts them; the worker offers these languages.
func newBench(t *testing.T, offered ...string) *bench {
	t.Helper()
	dir, err := os.MkdirTemp("", "gavel-e2e-") // for boxes to walk through
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	provider, err := linuxbox.Open(linuxbox.Config{TempDir: dir})
	if err != nil {
		testkit.Missing(t, testkit.Cgroup, "%v", err)
	}
	t.Cleanup(func() { _ = provider.Close() })
	registry, err := language.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	engine, err := judge.New(judge.Config{
		Provider: provider, Slots: 1, Languages: registry, ScratchDir: filepath.Join(dir, "scratch"), NoPrecompiledHeaders: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })

	log := slog.New(slog.DiscardHandler)
	arbiter, api := startArbiter(t, dir, serve.Config{})
	b := &bench{api: api, changed: make(chan struct{}, 1)}

	invitation, err := b.api.WorkerInvite(t.Context(), gavelapi.NewInvitation{})
	if err != nil {
		t.Fatal(err)
	}
	who, err := b.api.Enrol(t.Context(), gavelapi.EnrolRequest{Invitation: invitation.Code, Name: "w"})
	if err != nil {
		t.Fatal(err)
	}
	info := provider.Info()
	b.caps = gavelapi.Capabilities{MemoryBytes: judge.DefaultMemoryBudget(), Cores: 1, Kernel: info.Kernel, MemoryMeter: info.MemoryMeter}
	for _, id := range offered {
		b.offer(id)
	}
	agent, err := worker.New(worker.Config{
		Client: connect(t, arbiter.URL(), who.Token), Judge: engine, StateDir: filepath.Join(dir, "worker"), Slots: 1, Logger: log,
		Capabilities: b.offers, OfferChanged: b.changed, CPUMeter: info.CPUMeter,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return b
}

// startArbiter runs an arbiter with the given settings on a database of its
// own until the test ends, and returns it with the administrator's client.
func startArbiter(t *testing.T, dir string, cfg serve.Config) (*serve.Server, *client.Client) {
	t.Helper()
	cfg.DatabaseURL, cfg.DataDir, cfg.Listen = storetest.DB(t), filepath.Join(dir, "arbiter"), "127.0.0.1:0"
	cfg.Logger = slog.New(slog.DiscardHandler)
	arbiter, err := serve.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := arbiter.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	token, err := arbiter.AdminToken(t.Context(), filepath.Join(dir, "admin-token"))
	if err != nil {
		t.Fatal(err)
	}
	api := connect(t, arbiter.URL(), token)
	until(t, time.Minute, "the arbiter leads", func() bool { _, err := api.Ready(t.Context()); return err == nil })
	return arbiter, api
}

func connect(t *testing.T, url, token string) *client.Client {
	t.Helper()
	c, err := client.New(url, token, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// publish imports a problem whose one test wants its input back.
func (b *bench) publish(t *testing.T) {
	t.Helper()
	var packed bytes.Buffer
	zw := zip.NewWriter(&packed)
	for _, f := range [][2]string{
		{"problem.yaml", "problem_format_version: 2025-09\nname: Echo\nuuid: 7c0ffee0-0000-4000-8000-000000000002\nlimits:\n  time_limit: 20\n  memory: 256\n"},
		{"data/secret/1.in", "1\n"},
		{"data/secret/1.ans", "1\n"},
	} {
		w, err := zw.Create(f[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(f[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.api.ProblemImport(t.Context(), client.Import{Name: "echo", Verify: gavelapi.VerifyNone}, &packed); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) final(t *testing.T, id int64) gavelapi.Submission {
	t.Helper()
	for {
		sub, err := b.api.SubmissionGet(t.Context(), id, 20*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if gavelapi.Final(sub.State) && !sub.Rejudging {
			return *sub
		}
	}
}
