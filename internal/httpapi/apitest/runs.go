package apitest

import (
	"bytes"
	"context"
	"time"
	"unicode/utf8"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/auth"
)

// fakeRun is a run and what comes of it.
type fakeRun struct {
	run   gavelapi.Run
	to    gavelapi.Run // when it is done
	reads int
}

// CreateRun implements httpapi.Service. The program echoes its input; lines of
// its source say otherwise: "stderr: TEXT", "exit: 3" to end with that code,
// "ended: cpu" for another end, "cut" to have its output cut, "verdict: CE" not
// to compile and "verdict: SE" to meet a fault.
func (f *Fake) CreateRun(ctx context.Context, _ auth.Principal, key string, bodyHash []byte, n gavelapi.NewRun) (gavelapi.Run, bool, error) {
	if err := f.enter(ctx, "CreateRun"); err != nil {
		return gavelapi.Run{}, false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	known := false
	for _, l := range f.Known {
		known = known || l.ID == n.Language
	}
	if !known {
		return gavelapi.Run{}, false, apperr.New(apperr.Unsupported, "gavel language list shows the known ones", "unknown language").At("body.language")
	}
	earlier, replayed, err := f.underKey(key, bodyHash)
	switch {
	case err != nil:
		return gavelapi.Run{}, false, err
	case replayed:
		return f.runs[earlier-1].run, true, nil
	}
	source := n.SourceBase64
	if source == nil {
		source = []byte(n.Source)
	}
	if len(n.Inputs) == 0 {
		n.Inputs = []gavelapi.RunInput{{}}
	}
	run := gavelapi.Run{
		ID: int64(len(f.runs) + 1), Language: n.Language, User: n.User, State: gavelapi.StatePending, Waiting: "no free slot",
		Inputs: len(n.Inputs), Results: []gavelapi.RunResult{}, Attempts: []gavelapi.Attempt{}, CreatedAt: Epoch,
		Limits: gavelapi.Limits{CPUUS: max(n.Limits.CPUUS, 1), MemoryBytes: n.Limits.MemoryBytes, OutputBytes: n.Limits.OutputBytes},
	}
	f.runs = append(f.runs, fakeRun{run: run, to: outcomeOf(run, source, n.Inputs)})
	f.noteKey(key, bodyHash, run.ID)
	return run, false, nil
}

func outcomeOf(run gavelapi.Run, source []byte, inputs []gavelapi.RunInput) gavelapi.Run {
	finished, expires := Epoch.Add(time.Second), Epoch.Add(time.Hour)
	run.State, run.Waiting, run.Worker, run.FinishedAt, run.ExpiresAt = gavelapi.StateDone, "", "home-pc", &finished, &expires
	says := func(key string) string {
		_, after, ok := bytes.Cut(source, []byte(key+": "))
		if !ok {
			return ""
		}
		word, _, _ := bytes.Cut(after, []byte("\n"))
		return string(word)
	}
	switch says("verdict") {
	case "CE":
		run.Compile.Log = "main.cpp:1:1: error: 'x' does not name a type\n"
		return run
	case "SE":
		run.State, run.Fault = gavelapi.StateSystemError, &gavelapi.Fault{Blame: gavelapi.BlameHost, Message: "no space left on the worker"}
		return run
	}
	run.Compiled = true
	for _, in := range inputs {
		r := gavelapi.RunResult{Ended: gavelapi.EndedExit, CPUUS: 1500, WallUS: 2500, MemoryBytes: 3 << 20}
		if text := says("stderr"); text != "" {
			r.Stderr = text + "\n"
		}
		if code := says("exit"); code != "" {
			r.ExitCode = int(code[0] - '0')
		}
		if ended := says("ended"); ended != "" {
			r.Ended = ended
		}
		r.StdoutCut = bytes.Contains(source, []byte("cut\n"))
		if b := in.Bytes(); utf8.Valid(b) {
			r.Stdout = string(b)
		} else {
			r.StdoutBase64 = b
		}
		run.Results = append(run.Results, r)
	}
	return run
}

// ReadRun implements httpapi.Service: the first look finds it running, the
// second done.
func (f *Fake) ReadRun(ctx context.Context, id int64, _ time.Duration) (gavelapi.Run, error) {
	if err := f.enter(ctx, "ReadRun"); err != nil {
		return gavelapi.Run{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	r, err := f.findRun(id)
	if err != nil || gavelapi.Final(r.run.State) {
		return r.run, err
	}
	if r.reads++; r.reads == 1 {
		r.run.State, r.run.Waiting, r.run.Worker = gavelapi.StateRunning, "", "home-pc"
		r.run.Progress = &gavelapi.Progress{Phase: "running", TestsTotal: r.run.Inputs}
	} else {
		r.run = r.to
	}
	return r.run, nil
}

// CancelRun implements httpapi.Service.
func (f *Fake) CancelRun(ctx context.Context, _ auth.Principal, id int64) (gavelapi.Run, error) {
	if err := f.enter(ctx, "CancelRun"); err != nil {
		return gavelapi.Run{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	r, err := f.findRun(id)
	switch {
	case err != nil || r.run.State == gavelapi.StateCancelled:
		return r.run, err
	case gavelapi.Final(r.run.State):
		return r.run, apperr.New(apperr.Conflict, "read its result instead", "run %d is final already: %s", id, r.run.State)
	}
	r.run.State, r.run.Waiting = gavelapi.StateCancelled, ""
	return r.run, nil
}

func (f *Fake) findRun(id int64) (*fakeRun, error) {
	if id > int64(len(f.runs)) {
		return &fakeRun{}, apperr.New(apperr.NotFound, "run it again", "there is no such run")
	}
	return &f.runs[id-1], nil
}
