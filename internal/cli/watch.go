package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
)

const (
	// pollWait is how long the arbiter may hold an answer.
	pollWait = 25 * time.Second
	// idlePause keeps a read that came back unchanged from becoming a busy loop.
	idlePause = 200 * time.Millisecond
	// patience is how many answers in a row may fail before a watcher gives
	// up; with the pauses between them it outlasts a restart of the arbiter.
	patience = 12
)

// follow waits for the end of a judging, shows how it goes, and prints the
// result. failOn makes anything but AC an exit code.
func (a *App) follow(c *client.Client, id int64, failOn string) error {
	live := &liveLine{app: a}
	defer live.clear()
	sub, err := a.await(c, id, live)
	live.clear()
	if err != nil {
		if a.Ctx.Err() != nil {
			return &Error{
				Code: ExitInterrupted, Message: fmt.Sprintf("interrupted; submission %d goes on", id),
				Hint: fmt.Sprintf("gavel submission watch %d waits again, gavel submission cancel %d cancels it", id, id),
			}
		}
		return err
	}
	if err := a.printSubmission(sub); err != nil {
		return err
	}
	return outcome(sub, failOn)
}

// outcome is the exit of a command that waited.
func outcome(sub *gavelapi.Submission, failOn string) error {
	switch {
	case sub.State == gavelapi.StateSystemError:
		return failed(fmt.Sprintf("gavel submission show %d -o wide shows every attempt; the operator has to act", sub.ID),
			"submission %d could not be judged: a fault of the system, not of the program", sub.ID)
	case sub.State == gavelapi.StateCancelled:
		return failed("submit it again for a verdict", "submission %d was cancelled", sub.ID)
	case failOn != "" && sub.Verdict != "AC":
		return &Error{Code: ExitNotAccepted}
	}
	return nil
}

func (a *App) await(c *client.Client, id int64, live *liveLine) (*gavelapi.Submission, error) {
	var (
		wait   time.Duration // the first read shows where it stands
		last   string
		failed int
		pause  = client.NewPause(500*time.Millisecond, 8*time.Second)
	)
	for {
		ctx, stop := context.WithCancelCause(a.Ctx)
		sub, err := client.Retry(ctx, pause, func(ctx context.Context) (*gavelapi.Submission, error) {
			return c.SubmissionGet(ctx, id, wait)
		}, func(err error, next time.Duration) {
			if failed++; failed >= patience || wait == 0 {
				stop(err)
				return
			}
			live.show(fmt.Sprintf("submission %d: the arbiter does not answer, asking again in %s", id, took(next)), "away")
		})
		stop(nil)
		if err != nil {
			return nil, err
		}
		failed, wait = 0, pollWait
		if gavelapi.Final(sub.State) {
			return sub, nil
		}
		line := stateLine(sub)
		live.show(line, sub.State)
		if line == last {
			if err := client.Sleep(a.Ctx, idlePause); err != nil {
				return nil, err
			}
		}
		last = line
	}
}

func stateLine(sub *gavelapi.Submission) string {
	var b strings.Builder
	fmt.Fprintf(&b, "submission %d: %s", sub.ID, sub.State)
	if sub.Waiting != "" {
		fmt.Fprintf(&b, ", %s", sub.Waiting)
	}
	if p := sub.Progress; p != nil {
		fmt.Fprintf(&b, ", %s", p.Phase)
		if p.TestsTotal > 0 && p.Phase == "running" {
			fmt.Fprintf(&b, " %d/%d", p.TestsDone, p.TestsTotal)
		}
	}
	if sub.Worker != "" {
		fmt.Fprintf(&b, " on %s", sub.Worker)
	}
	return b.String()
}

// liveLine is one line on standard error that is written over on a terminal.
// Elsewhere it says a thing once per kind, so that logs stay short.
type liveLine struct {
	app   *App
	quiet bool // says nothing but on a terminal: standard error belongs to somebody else
	shown bool
	kind  string
}

func (l *liveLine) show(line, kind string) {
	line = clean(line)
	if l.app.ErrTerminal {
		if l.app.Columns > 0 {
			line = cut(line, l.app.Columns-1)
		}
		fmt.Fprintf(l.app.Err, "\r\x1b[K%s", line)
		l.shown = true
		return
	}
	if kind != l.kind && !l.quiet {
		fmt.Fprintln(l.app.Err, line)
	}
	l.kind = kind
}

func (l *liveLine) clear() {
	if l.shown {
		fmt.Fprint(l.app.Err, "\r\x1b[K")
	}
	l.shown = false
}
