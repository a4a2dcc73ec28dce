package checker

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

type runner func(*sandbox.Spec) (sandbox.Result, error)

func (r runner) Run(_ context.Context, spec *sandbox.Spec) (sandbox.Result, error) { return r(spec) }

var program = Program{
	Argv:   []string{"/box/check"},
	Env:    []string{"LANG=C.UTF-8"},
	Mounts: []sandbox.Mount{{Host: "/host/check", Box: "/box/check"}},
	Limits: ProgramLimits{CPU: 10 * time.Second, MemoryBytes: 1 << 30, OutputBytes: 1 << 20},
}

func TestCallingConvention(t *testing.T) {
	t.Parallel()
	_, err := program.Check(t.Context(), runner(func(spec *sandbox.Spec) (sandbox.Result, error) {
		if diff := cmp.Diff([]string{"/box/check", "/data/input", "/data/answer", "/w/feedback/", "a", "b"}, spec.Argv); diff != "" {
			t.Error(diff)
		}
		want := []sandbox.Mount{{Host: "/p/1.in", Box: "/data/input"}, {Host: "/p/1.ans", Box: "/data/answer"}, {Host: "/host/check", Box: "/box/check"}}
		if diff := cmp.Diff(want, spec.Mounts); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"feedback"}, spec.Dirs); diff != "" || spec.Profile != sandbox.ProfileChecker {
			t.Error(diff, spec.Profile)
		}
		return sandbox.Result{ExitCode: 42}, nil
	}), Case{Input: "/p/1.in", Answer: "/p/1.ans", Args: []string{"a", "b"}})
	if err != nil {
		t.Error(err)
	}
	if len(program.Argv) != 1 || len(program.Mounts) != 1 {
		t.Errorf("the program was changed: %+v", program)
	}
}

func TestOnlyTheTwoExitCodesAreAnswers(t *testing.T) {
	t.Parallel()
	for code := range 256 {
		got, err := program.Check(t.Context(), runner(func(*sandbox.Spec) (sandbox.Result, error) {
			return sandbox.Result{ExitCode: code}, nil
		}), Case{})
		switch code {
		case 42, 43:
			if err != nil || got.Accepted != (code == 42) {
				t.Errorf("exit code %d: %+v, %v", code, got, err)
			}
		default:
			if _, ok := errors.AsType[*Failure](err); !ok {
				t.Errorf("exit code %d: %+v, %v", code, got, err)
			}
		}
	}
}

func TestCheckersThatFail(t *testing.T) {
	t.Parallel()
	accepted := func(res sandbox.Result) sandbox.Result { res.ExitCode = 42; return res }
	tests := []struct {
		name string
		res  sandbox.Result
		err  error
		says string
	}{
		{"CPU limit", accepted(sandbox.Result{Fired: sandbox.LimitCPU, Signal: 9}), nil, "CPU limit of 10s"},
		{"more CPU than the limit, ended by itself", accepted(sandbox.Result{CPU: 11 * time.Second}), nil, "CPU limit of 10s"},
		{"wall limit", accepted(sandbox.Result{Fired: sandbox.LimitWall, Signal: 9}), nil, "longer than 30s"},
		{"memory", accepted(sandbox.Result{Fired: sandbox.LimitMemory, Signal: 9}), nil, "memory limit of 1024 MiB"},
		{"child killed for memory", accepted(sandbox.Result{OOMKills: 1}), nil, "memory limit"},
		{"output", accepted(sandbox.Result{Fired: sandbox.LimitOutput}), nil, "more than 1048576 bytes"},
		{"unknown limit", accepted(sandbox.Result{Fired: "moon"}), nil, "moon"},
		{"signal", sandbox.Result{Signal: 11}, nil, "signal 11"},
		{"not executable", sandbox.Result{}, &sandbox.Fault{Op: "exec", Err: syscall.EACCES}, "can not be started: permission denied"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := program.Check(t.Context(), runner(func(spec *sandbox.Spec) (sandbox.Result, error) {
				_, _ = io.WriteString(spec.Stderr, "last words\x00")
				return tt.res, tt.err
			}), Case{})
			var failure *Failure
			if !errors.As(err, &failure) {
				t.Fatalf("%+v, %v", got, err)
			}
			if !strings.Contains(failure.Message, tt.says) || tt.err == nil && !strings.HasSuffix(failure.Message, "\nlast words\ufffd") {
				t.Errorf("failure %q, want %q", failure.Message, tt.says)
			}
		})
	}
}

func TestFaultsOfTheMachineAreNotTheCheckers(t *testing.T) {
	t.Parallel()
	for _, broken := range []error{
		&sandbox.Fault{Op: "cgroup", Err: errors.New("gone")},
		&sandbox.Fault{Op: "exec", Err: syscall.ENOMEM},
		context.Canceled,
	} {
		_, err := program.Check(t.Context(), runner(func(*sandbox.Spec) (sandbox.Result, error) { return sandbox.Result{}, broken }), Case{})
		var failure *Failure
		if !errors.Is(err, broken) || errors.As(err, &failure) {
			t.Errorf("error %v, want %v", err, broken)
		}
	}
}

func TestCheckersMessages(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("é", 100_000)
	tests := []struct {
		name, jury, team string
		want             string
	}{
		{"none", "", "", ""},
		{"jury's", "line 3\r\nis wrong\n", "", "line 3\nis wrong"},
		{"jury's before the team's", "jury", "team", "jury"},
		{"team's when the jury's is blank", " \n", "team", "team"},
		{"control characters and bad UTF-8", "a\x1b[2J\xff\x00b", "", "a\ufffd[2J\ufffd\ufffdb"},
		{"long", huge, "", huge[:4096] + "…"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := program.Check(t.Context(), runner(func(spec *sandbox.Spec) (sandbox.Result, error) {
				res := sandbox.Result{ExitCode: 43, Files: map[string]sandbox.File{}}
				for i, text := range []string{tt.jury, tt.team} {
					f := sandbox.File{State: sandbox.FileMissing}
					if text != "" {
						f = sandbox.File{State: sandbox.FileOK, Size: int64(len(text)), Content: open(t, text)}
					}
					res.Files[spec.CopyOut[i].Path] = f
				}
				return res, nil
			}), Case{})
			if err != nil {
				t.Fatal(err)
			}
			if got.Accepted || got.Message != tt.want {
				t.Errorf("message %q, want %q", got.Message, tt.want)
			}
		})
	}
}

func TestMessageFileThatIsTooLargeIsSaid(t *testing.T) {
	t.Parallel()
	got, err := program.Check(t.Context(), runner(func(spec *sandbox.Spec) (sandbox.Result, error) {
		return sandbox.Result{ExitCode: 43, Files: map[string]sandbox.File{
			spec.CopyOut[0].Path: {State: sandbox.FileTooLarge, Size: 1 << 30},
		}}, nil
	}), Case{})
	if err != nil || !strings.Contains(got.Message, "1073741824") {
		t.Errorf("%+v, %v", got, err)
	}
}

func open(t *testing.T, text string) *os.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "message")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
