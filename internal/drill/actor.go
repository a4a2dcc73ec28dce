package drill

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/internal/clock"
	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/probe"
	"github.com/gavel-oj/gavel/internal/verdict"
)

// actor is the engine of the role worker: it does what the source says. A
// source is lines of "WHO: ACT"; the first whose WHO is this worker's name or *
// counts. Acts are
//
//	VERDICT after DURATION    such as AC after 300ms
//	VERDICT when GATE         when the drill opens the gate
//	die                       kill the whole worker at once
//	fault                     fail as a broken host does
//
// It fails everything once the drill has opened the gate broken-NAME.
type actor struct {
	name  string
	gates string
	sound bool
	clk   clock.Clock
	log   *slog.Logger
}

// Judge implements judge.Judge.
func (a actor) Judge(ctx context.Context, task judge.Task, progress func(judge.Progress)) (*judge.Report, error) {
	if a.isOpen("broken-" + a.name) {
		return nil, &judge.Fault{Blame: judge.BlameHost, Message: "this machine is broken: the drill has said so"}
	}
	if program, ok := strings.CutPrefix(task.Package.Manifest.Name, probe.Problem+"-"); ok && a.sound {
		program, _, _ = strings.Cut(program, "-")
		return report(task, verdict.Verdict(strings.ToUpper(program))), nil
	}
	act, err := a.part(string(task.Source))
	if err != nil {
		return nil, &judge.Fault{Blame: judge.BlameHost, Message: err.Error()}
	}
	progress(judge.Progress{Phase: judge.PhaseRunning, TestsTotal: len(task.Package.Manifest.Tests)})
	words := strings.Fields(act)
	switch {
	case act == "die":
		_ = unix.Kill(os.Getpid(), unix.SIGKILL) // cannot fail, and nothing runs after it
	case act == "fault":
		return nil, &judge.Fault{Blame: judge.BlameHost, Message: "the script says so"}
	case len(words) == 3 && words[1] == "after":
		d, err := time.ParseDuration(words[2])
		if err != nil {
			return nil, &judge.Fault{Blame: judge.BlameHost, Message: err.Error()}
		}
		select {
		case <-a.clk.After(d):
			return report(task, verdict.Verdict(words[0])), nil
		case <-ctx.Done():
		}
	case len(words) == 3 && words[1] == "when":
		if a.pass(ctx, words[2]) {
			return report(task, verdict.Verdict(words[0])), nil
		}
	default:
		return nil, &judge.Fault{Blame: judge.BlameHost, Message: "the script is not understood: " + act}
	}
	a.log.Info("run killed", "reason", context.Cause(ctx))
	return nil, context.Cause(ctx)
}

func (a actor) part(source string) (string, error) {
	for lines := bufio.NewScanner(strings.NewReader(source)); lines.Scan(); {
		who, act, ok := strings.Cut(lines.Text(), ":")
		if ok && (who == a.name || who == "*") {
			return strings.TrimSpace(act), nil
		}
	}
	return "", fmt.Errorf("the script has no part for %s", a.name)
}

// pass waits until the drill has opened a gate.
func (a actor) pass(ctx context.Context, gate string) bool {
	for {
		if a.isOpen(gate) {
			return true
		}
		select {
		case <-a.clk.After(5 * time.Millisecond):
		case <-ctx.Done():
			return false
		}
	}
}

func (a actor) isOpen(gate string) bool {
	_, err := os.Stat(filepath.Join(a.gates, gate))
	return err == nil
}

// report has a row for each test: the first one bears the verdict, and what
// comes after a failing one is skipped.
func report(task judge.Task, v verdict.Verdict) *judge.Report {
	r := &judge.Report{Verdict: v, Toolchain: "drill", Compile: judge.Compile{OK: v != verdict.CE}}
	if v == verdict.CE {
		return r
	}
	for i, test := range task.Package.Manifest.Tests {
		row := judge.Test{Name: test.Name, Verdict: v, CPU: time.Millisecond, Wall: time.Millisecond, MemoryBytes: 1 << 20}
		if v == verdict.TLE {
			row.CPU, row.Wall = task.Limits.CPU, task.Limits.CPU
		}
		if i > 0 && v != verdict.AC {
			row = judge.Test{Name: test.Name, Verdict: verdict.Skipped}
		}
		r.Tests = append(r.Tests, row)
	}
	return r
}
