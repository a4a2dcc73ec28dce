// Command testsum runs go test and says at the end what passed, what failed
// and what was skipped and why.
//
//	go run ./scripts/testsum [-race 'PACKAGES'] [-- ARGS FOR GO TEST]
//
// Packages named by -race run under the race detector and all others without
// it, so nothing runs twice. The last line has the form
//
//	N passed, N failed, N skipped
//
// where a test with subtests counts as its subtests. A package that does not
// build, or dies outside any test, counts as one failure. The exit status is 1
// when anything failed and also when no test ran at all.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"time"
)

func main() {
	race := flag.String("race", "", "package `patterns` to run under the race detector, separated by spaces")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ok, err := run(ctx, os.Stdout, ".", strings.Fields(*race), flag.Args())
	switch {
	case ctx.Err() != nil:
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "testsum:", err)
		os.Exit(1)
	case !ok:
		os.Exit(1)
	}
}

// run tests every package of the module in dir and reports to out whether all
// is well. The error is for what kept it from starting.
func run(ctx context.Context, out io.Writer, dir string, race, args []string) (bool, error) {
	all, err := list(ctx, dir, []string{"-e", "./..."}) // a package that does not parse is go test's to report
	if err != nil {
		return false, err
	}
	var raced []string
	if len(race) > 0 {
		// Without -e: a package on the list that has gone is a mistake in the list.
		if raced, err = list(ctx, dir, race); err != nil {
			return false, err
		}
	}
	plain := slices.DeleteFunc(all, func(p string) bool { return slices.Contains(raced, p) })
	module, err := output(ctx, dir, "list", "-m")
	if err != nil {
		return false, err
	}

	sum := newTally(out, strings.TrimSpace(module))
	// Without the detector, which needs it, cgo is off: so are our programs built, and the compiler's work is shared.
	for _, group := range []struct {
		env      string
		flags    []string
		packages []string
	}{{"CGO_ENABLED=1", []string{"-race"}, raced}, {"CGO_ENABLED=0", nil, plain}} {
		if len(group.packages) == 0 || ctx.Err() != nil {
			continue
		}
		fmt.Fprintf(out, "go test %s(%d packages)\n", strings.Join(append(group.flags, ""), " "), len(group.packages))
		if err := goTest(ctx, sum, dir, group.env, slices.Concat(group.flags, args, group.packages)); err != nil {
			return false, err
		}
	}
	return sum.finish(ctx.Err() != nil), nil
}

// goTest runs go test once and feeds its events to sum. A run that fails
// without any event that says so is counted as a failure of its own.
func goTest(ctx context.Context, sum *tally, dir, env string, args []string) error {
	before := sum.failed
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env)
	// An interrupt lets the tests clean up (cgroups, servers); a kill would not.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start go test: %w", err)
	}
	if err := feed(stdout, sum); err != nil {
		return fmt.Errorf("read the events of go test: %w", err)
	}
	err = cmd.Wait()
	if err != nil && sum.failed == before {
		sum.failRun(fmt.Sprintf("go test: %v\n%s", err, stderr.String()))
	}
	return nil
}

// feed reads one JSON event per line; a line that is none is shown as it is.
func feed(r io.Reader, sum *tally) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil && e.Action != "" {
				sum.add(e)
			} else {
				fmt.Fprintf(sum.out, "%s", line)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// list expands package patterns.
func list(ctx context.Context, dir string, patterns []string) ([]string, error) {
	out, err := output(ctx, dir, append([]string{"list"}, patterns...)...)
	return strings.Fields(out), err
}

func output(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out), nil
}
