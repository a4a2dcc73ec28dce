package cli_test

import (
	"context"
	"flag"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/cli"
	"github.com/gavel-oj/gavel/internal/httpapi"
	"github.com/gavel-oj/gavel/internal/httpapi/apitest"
	"github.com/gavel-oj/gavel/internal/sandbox/linuxbox"
)

var update = flag.Bool("update", false, "rewrite the golden parts of the scripts")

// The test binary is the program: scripts run it as `gavel`.
func TestMain(m *testing.M) {
	linuxbox.Init()
	testscript.Main(m, map[string]func(){
		"gavel": func() {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
			defer stop()
			grammar := &struct {
				cli.Commands

				Up     cli.UpCmd     `cmd:""`
				Serve  cli.ServeCmd  `cmd:""`
				Config cli.ConfigCmd `cmd:""`
			}{}
			s := cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Environ: os.Environ()}
			s.OutTerminal, s.ErrTerminal = os.Getenv("TEST_TERMINAL") == "1", os.Getenv("TEST_TERMINAL") == "1"
			os.Exit(cli.Run(ctx, grammar, &grammar.Globals, os.Args[1:], s))
		},
	})
}

// TestScripts runs testdata/script against an arbiter in memory, one per
// script. Scripts say `exit N gavel …` for a run that must end with code N.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			fake := apitest.New()
			srv := httptest.NewUnstartedServer(nil)
			logger := slog.New(slog.DiscardHandler)
			srv.Config = httpapi.NewServer(httpapi.New(httpapi.Config{
				Service: fake, Logger: logger, Build: cli.Build(), MaxUploadBytes: 1 << 20, TempDir: t.TempDir(),
			}), logger)
			srv.Start()
			env.Defer(srv.Close)
			env.Values["fake"] = fake
			env.Setenv("GAVEL_URL", srv.URL)
			env.Setenv("GAVEL_TOKEN", apitest.AdminToken)
			env.Setenv("SITE_TOKEN", apitest.SiteToken)
			env.Setenv("COLUMNS", "80")
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exit":    exit,
			"break":   breakMethod,
			"bigfile": bigFile,
			"bytes":   bytesFile,
		},
	})
}

// exit runs a program and wants its exit code: exit CODE PROGRAM ARGS…
func exit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exit CODE PROGRAM ARGS…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		coder, ok := err.(interface{ ExitCode() int })
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = coder.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// breakMethod makes a method of the fake arbiter fail: break METHOD CODE MESSAGE
// (or HINT-less); METHOD * is every one.
func breakMethod(ts *testscript.TestScript, _ bool, args []string) {
	fake, ok := ts.Value("fake").(*apitest.Fake)
	if !ok {
		ts.Fatalf("no fake arbiter")
	}
	if args[0] == "ready" {
		fake.NotReady(map[string]string{args[1]: args[2]})
		return
	}
	method, code, message := args[0], apperr.Code(args[1]), strings.Join(args[2:], " ")
	fake.Before(func(_ context.Context, m string) error {
		if m == method || method == "*" {
			return apperr.New(code, "", "%s", message)
		}
		return nil
	})
}

// bigFile makes a file of a size: bigfile NAME BYTES [PREFIX]
func bigFile(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	prefix := ""
	if len(args) > 2 {
		prefix = args[2]
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(prefix+strings.Repeat("x", n-len(prefix))), 0o600))
}

// bytesFile makes a file of a Go string literal: bytes NAME '"a\x00b"'
func bytesFile(ts *testscript.TestScript, _ bool, args []string) {
	text, err := strconv.Unquote(args[1])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}
