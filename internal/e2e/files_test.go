package e2e

import (
	"archive/zip"
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
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
	api *client.Client
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
	arbiter, err := serve.Start(t.Context(), serve.Config{
		DatabaseURL: storetest.DB(t), DataDir: filepath.Join(dir, "arbiter"), Listen: "127.0.0.1:0", Logger: log,
	})
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
	connect := func(token string) *client.Client {
		c, err := client.New(arbiter.URL(), token, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	b := &bench{api: connect(token)}
	until(t, time.Minute, "the arbiter leads", func() bool { _, err := b.api.Ready(t.Context()); return err == nil })

	invitation, err := b.api.WorkerInvite(t.Context(), gavelapi.NewInvitation{})
	if err != nil {
		t.Fatal(err)
	}
	who, err := b.api.Enrol(t.Context(), gavelapi.EnrolRequest{Invitation: invitation.Code, Name: "w"})
	if err != nil {
		t.Fatal(err)
	}
	info := provider.Info()
	capabilities := gavelapi.Capabilities{MemoryBytes: judge.DefaultMemoryBudget(), Cores: 1, Kernel: info.Kernel, MemoryMeter: info.MemoryMeter}
	for _, id := range offered {
		capabilities.Languages = append(capabilities.Languages, gavelapi.LanguageOffer{ID: id, Version: "installed"})
	}
	agent, err := worker.New(worker.Config{
		Client: connect(who.Token), Judge: engine, StateDir: filepath.Join(dir, "worker"), Slots: 1, Logger: log,
		Capabilities: func() gavelapi.Capabilities { return capabilities }, CPUMeter: info.CPUMeter,
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
	if _, err := b.api.ProblemImport(t.Context(), "echo", &packed); err != nil {
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

// Programs of several files, each with what the main file gets alone.
var severalFiles = []struct {
	language, alone, source string
	files                   []gavelapi.SourceFile
}{
	{
		"cpp17", "CE", "#include <cstdio>\n#include \"echo.h\"\nint main() { int n; scanf(\"%d\", &n); printf(\"%d\\n\", echo(n)); }\n",
		[]gavelapi.SourceFile{
			{Name: "echo.h", Content: "#pragma once\nint echo(int n);\n"},
			{Name: "echo.cpp", Content: "#include \"echo.h\"\nint echo(int n) { return n; }\n"},
		},
	},
	{
		"python3", "RE", "import helper\nprint(helper.echo(int(input())))\n",
		[]gavelapi.SourceFile{{Name: "helper.py", Content: "def echo(n):\n    return n\n"}},
	},
	{
		"java", "CE", "public class Main {\n    public static void main(String[] args) {\n" +
			"        System.out.println(new Echo(new java.util.Scanner(System.in).nextInt()).say());\n    }\n}\n",
		[]gavelapi.SourceFile{{Name: "Echo.java", Content: "public class Echo {\n    private final int n;\n    public Echo(int n) { this.n = n; }\n    public int say() { return n; }\n}\n"}},
	},
}

func TestSourcesOfSeveralFilesAreJudged(t *testing.T) {
	for id, program := range map[string]string{"cpp17": "/usr/bin/g++", "python3": "/usr/bin/python3", "java": "/usr/bin/javac"} {
		if _, err := os.Stat(program); err != nil {
			testkit.Missing(t, testkit.Lang, "%s: %v", id, err)
		}
	}
	b := newBench(t, "cpp17", "python3", "java")
	b.publish(t)
	for _, tt := range severalFiles {
		t.Run(tt.language, func(t *testing.T) {
			submit := func(files []gavelapi.SourceFile) gavelapi.Submission {
				sub, err := b.api.SubmissionCreate(t.Context(), gavelapi.NewSubmission{Problem: "echo", Language: tt.language, Source: tt.source, Files: files}, "")
				if err != nil {
					t.Fatal(err)
				}
				return b.final(t, sub.ID)
			}
			sub := submit(tt.files)
			wantOnce(t, sub, "AC")
			if sub.SourceFiles != 1+len(tt.files) || sub.SourceName == "" {
				t.Errorf("%d files, main %q", sub.SourceFiles, sub.SourceName)
			}
			if alone := submit(nil); alone.Verdict != tt.alone {
				t.Errorf("the main file alone gets %s, want %s", alone.Verdict, tt.alone)
			}
			if _, err := b.api.SubmissionRejudge(t.Context(), sub.ID, "once more"); err != nil {
				t.Fatal(err)
			}
			again := b.final(t, sub.ID)
			if n := len(again.Detail.Judgings); n != 2 || !again.Detail.Judgings[1].Current || again.Verdict != "AC" {
				t.Errorf("judged again: %s, %+v", again.Verdict, again.Detail.Judgings)
			}
		})
	}
}
