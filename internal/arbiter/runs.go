package arbiter

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/auth"
	"github.com/gavel-oj/gavel/internal/dispatch"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/report"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// kindRun is the kind of a run's jobs.
const kindRun = report.KindRun

// kindProbe is that of a known-answer probe.
const kindProbe = "probe"

// RunSettings bound runs. Limits of CPU time and memory are before the
// language's rule, as a package would give them.
type RunSettings struct {
	Keep        time.Duration // how long a result is kept
	Inputs      int           // of one run
	InputBytes  int64         // of all inputs of a run together
	OutputBytes int64         // kept of all outputs of a run together
	CPU         time.Duration // of one input's run
	AllCPU      time.Duration // of all inputs' runs together
	MemoryBytes int64
}

// DefaultRunSettings make a run's lease and its result fit into the API's
// limits for bodies, and its slot free again within about a minute or two.
var DefaultRunSettings = RunSettings{
	Keep: time.Hour, Inputs: 20, InputBytes: 2 << 20, OutputBytes: 8 << 20,
	CPU: 10 * time.Second, AllCPU: 60 * time.Second, MemoryBytes: 1 << 30,
}

func (s RunSettings) orDefaults() RunSettings {
	d := DefaultRunSettings
	return RunSettings{
		Keep: cmp.Or(s.Keep, d.Keep), Inputs: cmp.Or(s.Inputs, d.Inputs),
		InputBytes: cmp.Or(s.InputBytes, d.InputBytes), OutputBytes: cmp.Or(s.OutputBytes, d.OutputBytes),
		CPU: cmp.Or(s.CPU, d.CPU), AllCPU: cmp.Or(s.AllCPU, d.AllCPU), MemoryBytes: cmp.Or(s.MemoryBytes, d.MemoryBytes),
	}
}

// What a run has when it names no limits, and how many processes it always has.
const (
	runCPU         = 2 * time.Second
	runMemoryBytes = 256 << 20
	runOutputBytes = 1 << 20
	runProcesses   = 64
)

// maxClaimPayload bounds the sources and inputs in one answer to a claim, below
// what a client reads.
const maxClaimPayload = 32 << 20

// CreateRun implements httpapi.Service.
func (a *Arbiter) CreateRun(ctx context.Context, p auth.Principal, key string, bodyHash []byte, n gavelapi.NewRun) (gavelapi.Run, bool, error) {
	var none gavelapi.Run
	lang, ok := a.cfg.Languages.Get(n.Language)
	if !ok {
		return none, false, apperr.New(apperr.Unsupported, "gavel language list shows the known ones", "unknown language").At("body.language")
	}
	src, err := a.checkSource(gavelapi.NewSubmission{
		SourceName: n.SourceName, Source: n.Source, SourceBase64: n.SourceBase64, Files: n.Files,
	}, lang, &problem.Manifest{})
	if err != nil {
		return none, false, err
	}
	inputs, err := a.checkInputs(n.Inputs)
	if err != nil {
		return none, false, err
	}
	limits, err := a.runLimits(n.Limits, len(inputs), lang)
	if err != nil {
		return none, false, err
	}
	needs := []string{gavelapi.FeatureRun}
	done, err := a.db.SubmitRun(ctx, store.NewRun{
		Language: lang.ID, Submitter: n.User, SourceName: src.name, Source: src.main, Files: src.more, Inputs: inputs,
		Limits: mustJSON(wireLimits(limits)), Features: needs, MemoryBytes: limits.MemoryBytes, CPUUS: limits.CPU.Microseconds(),
		Keep: a.cfg.Runs.Keep, Key: store.IdempotencyKey{Text: key, BodyHash: bodyHash}, TokenID: p.TokenID, MaxWaiting: a.cfg.MaxWaitingPerUser,
	})
	if _, refused := errors.AsType[*apperr.Error](err); refused {
		return none, false, err
	}
	if err != nil {
		return none, false, unavailable(err, "store a run")
	}
	if l := a.current.Load(); l != nil && !done.Replayed {
		l.mu.Lock()
		l.enqueue(dispatch.Job{
			ID: done.JobID, Lane: dispatch.Run, Class: dispatch.ClassPractice, Submitter: n.User, Language: lang.ID,
			Needs: dispatch.Needs{Features: needs, MemoryBytes: limits.MemoryBytes, Tight: limits.CPU <= tightLimit},
		})
		l.mu.Unlock()
		l.poke()
	}
	run, err := a.readRun(ctx, done.RunID)
	return run, done.Replayed, err
}

func (a *Arbiter) checkInputs(given []gavelapi.RunInput) ([][]byte, error) {
	s := a.cfg.Runs
	if len(given) > s.Inputs {
		return nil, apperr.New(apperr.Invalid, "send them in several runs", "%d inputs, a run takes at most %d", len(given), s.Inputs).At("body.inputs")
	}
	inputs, total := make([][]byte, 0, max(1, len(given))), int64(0)
	for _, in := range given {
		inputs = append(inputs, in.Bytes())
		total += int64(len(in.Bytes()))
	}
	if total > s.InputBytes {
		return nil, apperr.New(apperr.TooLarge, "make them smaller, or let the program make its own input",
			"all inputs together have %d bytes, a run takes at most %d", total, s.InputBytes).At("body.inputs")
	}
	if len(inputs) == 0 {
		inputs = append(inputs, nil) // one that is empty
	}
	return inputs, nil
}

// runLimits are the limits of each input's run, after the language's rule.
func (a *Arbiter) runLimits(want gavelapi.RunLimits, inputs int, lang *language.Language) (language.Limits, error) {
	s := a.cfg.Runs
	cpu := cmp.Or(time.Duration(want.CPUUS)*time.Microsecond, min(runCPU, s.CPU, s.AllCPU/time.Duration(inputs)))
	memory := cmp.Or(want.MemoryBytes, min(runMemoryBytes, s.MemoryBytes))
	output := cmp.Or(want.OutputBytes, min(runOutputBytes, s.OutputBytes/int64(inputs)))
	over := func(field, format string, args ...any) (language.Limits, error) {
		return language.Limits{}, apperr.New(apperr.Invalid, "ask for less, or leave it out for the default", format, args...).At("body.limits." + field)
	}
	switch {
	case want.CPUUS < 0 || want.CPUUS > s.CPU.Microseconds(): // looked at before it is a Duration, which it may overflow
		return over("cpu_us", "a run has between 1 µs and %v of CPU time", s.CPU)
	case cpu*time.Duration(inputs) > s.AllCPU:
		return over("cpu_us", "%d inputs of %v are together more than the %v of CPU time that a run has", inputs, cpu, s.AllCPU)
	case memory < 0 || memory > s.MemoryBytes:
		return over("memory_bytes", "a run has between 1 byte and %d MiB of memory", s.MemoryBytes>>20)
	case output < 0 || output > s.OutputBytes:
		return over("output_bytes", "a run keeps between 1 and %d bytes of output", s.OutputBytes)
	case output*int64(inputs) > s.OutputBytes:
		return over("output_bytes", "%d inputs with %d bytes are together more than the %d bytes of output that a run keeps", inputs, output, s.OutputBytes)
	}
	limits, err := language.Effective(problem.Limits{
		CPUMS: max(1, (cpu + time.Millisecond - 1).Milliseconds()), MemoryBytes: memory, OutputBytes: output, Processes: runProcesses,
	}, lang)
	if err != nil {
		return limits, apperr.Wrap(err, apperr.Internal, "", "the limits of a run do not fit this language")
	}
	return limits, nil
}

// ReadRun implements httpapi.Service.
func (a *Arbiter) ReadRun(ctx context.Context, id int64, wait time.Duration) (gavelapi.Run, error) {
	changed, stop := a.watch.on(subject{run: true, id: id})
	defer stop()
	run, err := a.readRun(ctx, id)
	if err != nil || wait <= 0 || gavelapi.Final(run.State) {
		return run, err
	}
	return awaitChange(ctx, a, run, changed, wait,
		func() (gavelapi.Run, error) { return a.readRun(ctx, id) },
		func(now gavelapi.Run) bool {
			return now.State != run.State || !sameProgress(now.Progress, run.Progress)
		})
}

func noRun(id int64) error {
	return apperr.New(apperr.NotFound, "results of runs are kept for a while only; run it again", "there is no run %d, or it has expired", id)
}

func (a *Arbiter) readRun(ctx context.Context, id int64) (gavelapi.Run, error) {
	r, err := a.q.RunByID(ctx, a.db.Pool, id)
	if store.IsNoRows(err) {
		return gavelapi.Run{}, noRun(id)
	}
	if err != nil {
		return gavelapi.Run{}, unavailable(err, "read a run")
	}
	attempts, err := a.q.AttemptsOfRun(ctx, a.db.Pool, id)
	if err != nil {
		return gavelapi.Run{}, unavailable(err, "read attempts")
	}
	run := gavelapi.Run{
		ID: r.ID, Language: r.Language, User: r.Submitter, State: r.State, Inputs: int(r.Inputs), Worker: knownAs(r.Worker),
		Compiled: r.Compiled != nil && *r.Compiled, Results: []gavelapi.RunResult{}, Attempts: make([]gavelapi.Attempt, len(attempts)),
		CreatedAt: r.CreatedAt.UTC(), FinishedAt: utc(r.FinishedAt), ExpiresAt: utc(r.ExpiresAt),
	}
	for i, t := range attempts {
		run.Attempts[i] = wireAttempt(&storedb.AttemptsOfSubmissionRow{
			LeaseGen: t.LeaseGen, Worker: t.Worker, GrantedAt: t.GrantedAt, EndedAt: t.EndedAt,
			Outcome: t.Outcome, Blame: t.Blame, Message: t.Message, LateReport: t.LateReport,
		})
	}
	run.Unreadable = readStored(fmt.Sprintf("run %d", id), "hand it in again",
		stored{"limits", r.Limits, &run.Limits}, stored{"compile", r.Compile, &run.Compile}, stored{"results", r.Results, &run.Results},
		stored{"provenance", r.Provenance, &run.Provenance}, stored{"fault", r.Fault, &run.Fault})
	if run.Results == nil {
		run.Results = []gavelapi.RunResult{}
	}
	for i := range min(len(run.Results), len(r.Outputs), len(r.Errors)) {
		t := &run.Results[i]
		t.Stdout, t.StdoutBase64 = asText(r.Outputs[i])
		t.Stderr, t.StderrBase64 = asText(r.Errors[i])
	}
	if !gavelapi.Final(run.State) {
		run.Waiting, run.Progress = a.memoryOf(ctx, run.State, r.JobID, r.LeaseToken, run.Worker)
	}
	return run, nil
}

// asText is output as text where JSON carries that exactly and about as short
// as it is: valid UTF-8 without control characters but those of layout.
func asText(b []byte) (string, []byte) {
	if !utf8.Valid(b) {
		return "", b
	}
	for _, c := range b {
		if c < ' ' && c != '\n' && c != '\t' && c != '\r' || c == 0x7f {
			return "", b
		}
	}
	return string(b), nil
}

// CancelRun implements httpapi.Service. Repeating it is fine; a run that was
// done first keeps its result.
func (a *Arbiter) CancelRun(ctx context.Context, p auth.Principal, id int64) (gavelapi.Run, error) {
	rows, err := a.db.CancelRun(ctx, id)
	if err != nil {
		return gavelapi.Run{}, unavailable(err, "cancel a run")
	}
	for _, r := range rows {
		if l := a.current.Load(); l != nil {
			l.mu.Lock()
			l.dropJob(r.JobID)
			l.mu.Unlock()
			l.poke()
		}
		a.watch.changed(subject{run: true, id: id})
		a.log.Info("run cancelled", "run_id", id, "by", p)
	}
	run, err := a.readRun(ctx, id)
	if err != nil || run.State == gavelapi.StateCancelled {
		return run, err
	}
	return run, apperr.New(apperr.Conflict, "read its result instead", "run %d is final already: %s", id, run.State)
}

// payloads are what the workers of granted jobs need beside their rows, by the
// ids of the work.
type payloads struct {
	runs  map[int64]*storedb.RunPayloadsRow
	steps map[int64]*storedb.PreparePayloadsRow
}

// payloads reads them; grants of judgings alone cost nothing here. Without its
// payload a lease is not told to its worker, and comes back as one that was not
// delivered.
func (l *leadership) payloads(ctx context.Context, rows []*storedb.GrantLeasesRow) (more payloads) {
	var runs, steps []int64
	for _, r := range rows {
		switch r.Kind {
		case kindRun:
			runs = append(runs, r.WorkID)
		case kindPrepare:
			steps = append(steps, r.WorkID)
		}
	}
	if runs != nil {
		found, err := l.a.q.RunPayloads(ctx, l.a.db.Pool, runs)
		if err != nil {
			l.a.log.Warn("reading granted runs failed; they are granted again later", "runs", len(runs), "error", err)
		}
		more.runs = make(map[int64]*storedb.RunPayloadsRow, len(found))
		for _, r := range found {
			more.runs[r.ID] = r
		}
	}
	if steps != nil {
		found, err := l.a.q.PreparePayloads(ctx, l.a.db.Pool, steps)
		if err != nil {
			l.a.log.Warn("reading granted steps of preparations failed; they are granted again later", "steps", len(steps), "error", err)
		}
		more.steps = make(map[int64]*storedb.PreparePayloadsRow, len(found))
		for _, r := range found {
			more.steps[r.ID] = r
		}
	}
	return more
}

// addRun puts a run's payload into its lease.
func (a *Arbiter) addRun(lease *gavelapi.Lease, r *storedb.RunPayloadsRow) bool {
	if r == nil {
		return false
	}
	lease.SourceName, lease.Source = r.SourceName, r.Source
	for i, name := range r.FileNames {
		lease.Files = append(lease.Files, gavelapi.LeaseFile{Name: name, Content: r.FileContents[i]})
	}
	lease.Run = &gavelapi.LeaseRun{RunID: r.ID, Inputs: r.Inputs}
	if err := json.Unmarshal(r.Limits, &lease.Limits); err != nil {
		a.log.Error("stored limits cannot be read", "run_id", r.ID, "error", err)
		return false
	}
	return true
}

// payloadBytes is what a lease of a run carries.
func payloadBytes(lease gavelapi.Lease) (n int) {
	if lease.Run == nil {
		return 0
	}
	for _, in := range lease.Run.Inputs {
		n += len(in)
	}
	for _, f := range lease.Files {
		n += len(f.Content)
	}
	return n + len(lease.Source)
}

// recordRun records the result of a run under a live lease; false means that
// it was not live (I2, I3).
func (a *Arbiter) recordRun(ctx context.Context, l *leadership, p auth.Principal, h foundLease, rep *gavelapi.Report) (bool, error) {
	params := storedb.RecordRunParams{
		JobID: h.jobID, LeaseToken: h.token, WorkerID: p.WorkerID, Compiled: rep.Run.Compiled,
		Compile: mustJSON(rep.Compile), Provenance: mustJSON(rep.Provenance), Results: mustJSON(withoutOutput(rep.Run.Results)),
		Outputs: [][]byte{}, Errors: [][]byte{},
	}
	for _, t := range rep.Run.Results {
		params.Outputs = append(params.Outputs, append([]byte{}, t.StdoutBytes()...)) // no output is not a NULL
		params.Errors = append(params.Errors, append([]byte{}, t.StderrBytes()...))
	}
	known := l.lookUp(h)
	rows, err := a.q.RecordRun(ctx, a.db.Pool, &params)
	if err != nil || len(rows) == 0 {
		return false, err
	}
	l.finish(h.token, h.jobID)
	l.judged(known)
	a.watch.changed(h.subject())
	return true, nil
}

func withoutOutput(results []gavelapi.RunResult) []gavelapi.RunResult {
	out := make([]gavelapi.RunResult, len(results))
	for i, t := range results {
		t.Stdout, t.StdoutBase64, t.Stderr, t.StderrBase64 = "", nil, "", nil
		out[i] = t
	}
	return out
}

// evidence is what is kept of a late report: of a run all but its output.
func evidence(r *gavelapi.Report) *gavelapi.Report {
	kept := *r
	kept.Outputs = nil
	if r.Run == nil {
		return &kept
	}
	run := *r.Run
	run.Results = withoutOutput(run.Results)
	kept.Run = &run
	return &kept
}
