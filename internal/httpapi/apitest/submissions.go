package apitest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/auth"
	"github.com/gavel-oj/gavel/internal/httpapi"
)

// CreateSubmission implements httpapi.Service. The source names its outcome
// in a line "verdict: WA"; without one it is AC. "verdict: SE" is a fault.
func (f *Fake) CreateSubmission(ctx context.Context, _ auth.Principal, key string, bodyHash []byte, in gavelapi.NewSubmission) (gavelapi.Submission, bool, error) {
	if err := f.enter(ctx, "CreateSubmission"); err != nil {
		return gavelapi.Submission{}, false, err
	}
	if _, err := f.Problem(ctx, in.Problem); err != nil {
		return gavelapi.Submission{}, false, err
	}
	if !slices.ContainsFunc(f.Known, func(l gavelapi.LanguageInfo) bool { return l.ID == in.Language }) {
		return gavelapi.Submission{}, false, apperr.New(apperr.Unsupported, "list them: gavel language list", "there is no language%s", apperr.Named(in.Language)).At("body.language")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	earlier, replayed, err := f.underKey(key, bodyHash)
	switch {
	case err != nil:
		return gavelapi.Submission{}, false, err
	case replayed:
		return f.subs[earlier-1], true, nil
	}
	all := []byte(in.Source + string(in.SourceBase64))
	files := []gavelapi.SourceFile{{Name: cmp.Or(in.SourceName, "main"), Content: in.Source, ContentBase64: in.SourceBase64}}
	for _, f := range in.Files {
		all = append(all, f.Bytes()...)
		files = append(files, f)
	}
	source := string(all)
	id := int64(len(f.subs) + 1)
	sub := gavelapi.Submission{
		ID: id, Problem: in.Problem, PackageDigest: Digest, Language: in.Language, User: in.User, SourceName: in.SourceName,
		SourceBytes: int64(len(source)), SourceFiles: len(files), State: gavelapi.StatePending, Waiting: "no free slot",
		CreatedAt: Epoch.Add(time.Duration(id) * time.Second),
	}
	f.outcome[id] = "AC"
	if _, rest, ok := strings.Cut(source, "verdict: "); ok {
		f.outcome[id], _, _ = strings.Cut(rest, "\n")
	}
	f.subs = append(f.subs, sub)
	f.sources = append(f.sources, gavelapi.SubmissionSource{SubmissionID: id, Language: in.Language, Files: files})
	f.noteKey(key, bodyHash, id)
	return sub, false, nil
}

// underKey finds what an earlier request with a key made.
func (f *Fake) underKey(key string, bodyHash []byte) (id int64, replayed bool, err error) {
	k, ok := f.keys[key]
	if !ok || key == "" {
		return 0, false, nil
	}
	if k.hash != string(bodyHash) {
		return 0, false, apperr.New(apperr.Invalid, "use a new key for a new request", "this key was used with another body").At("header.Idempotency-Key")
	}
	return k.id, true, nil
}

func (f *Fake) noteKey(key string, bodyHash []byte, id int64) {
	f.keys[key] = keyed{id: id, hash: string(bodyHash)}
}

// Submission implements httpapi.Service. Each waiting read moves the judging
// on by one step, so that a watcher sees every state without any time passing.
func (f *Fake) Submission(ctx context.Context, id int64, wait time.Duration) (gavelapi.Submission, error) {
	if err := f.enter(ctx, "Submission"); err != nil {
		return gavelapi.Submission{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if id < 1 || id > int64(len(f.subs)) {
		return gavelapi.Submission{}, apperr.New(apperr.NotFound, "list them: gavel submission list", "there is no submission %d", id)
	}
	sub := &f.subs[id-1]
	if wait > 0 {
		f.step(sub)
	}
	return *sub, nil
}

func (f *Fake) step(sub *gavelapi.Submission) {
	switch {
	case gavelapi.Final(sub.State):
	case sub.State == gavelapi.StatePending:
		sub.State, sub.Waiting, sub.Worker = gavelapi.StateJudging, "", "home-pc"
		sub.Progress = &gavelapi.Progress{Phase: "compiling", TestsTotal: 3}
	case sub.Progress.TestsDone < 2 && f.outcome[sub.ID] != "CE":
		sub.Progress = &gavelapi.Progress{Phase: "running", TestsDone: sub.Progress.TestsDone + 1, TestsTotal: 3}
	default:
		f.finish(sub)
	}
}

func (f *Fake) finish(sub *gavelapi.Submission) {
	at := sub.CreatedAt.Add(1234 * time.Millisecond)
	sub.FinishedAt, sub.Progress, sub.State = &at, nil, gavelapi.StateDone
	sub.Verdict = f.outcome[sub.ID]
	detail := &gavelapi.SubmissionDetail{
		JudgingID: sub.ID, Limits: gavelapi.Limits{CPUUS: 1_000_000, WallUS: 3_000_000, MemoryBytes: 256 << 20},
		Compile: gavelapi.CompileInfo{CPUUS: 650_000, WallUS: 700_000},
		Provenance: gavelapi.Provenance{
			WorkerBuild: "0.1.0", Kernel: "6.1.0", MemoryMeter: "cgroup2", CPUMeter: "cgroup2", Toolchain: "g++ 12.2.0", PackageDigest: Digest,
		},
		Attempts: []gavelapi.Attempt{{LeaseGen: 1, Worker: "home-pc", GrantedAt: sub.CreatedAt, EndedAt: &at, Outcome: "completed"}},
	}
	sub.Detail = detail
	test := gavelapi.TestResult{CPUUS: 3210, WallUS: 4000, MemoryBytes: 3 << 20, Verdict: "AC"}
	for i, name := range []string{"sample/1", "secret/01-min", "secret/02-max"} {
		t := test
		t.Name, t.Sample = name, i == 0
		detail.Tests = append(detail.Tests, t)
	}
	last := &detail.Tests[2]
	switch sub.Verdict {
	case "AC":
	case "CE":
		detail.Tests = []gavelapi.TestResult{}
		detail.Compile.Log = "main.cpp:1:1: error: 'x' does not name a type"
		return
	case "SE":
		sub.State, sub.Verdict = gavelapi.StateSystemError, "SE"
		sub.Fault = &gavelapi.Fault{Blame: gavelapi.BlameHost, Message: "no space left on the worker; free some and rejudge"}
		detail.Tests = []gavelapi.TestResult{}
		detail.Attempts[0].Outcome, detail.Attempts[0].Blame = "failed", gavelapi.BlameHost
		return
	default:
		last.Verdict = sub.Verdict
		last.Message = "expected 7, found 8"
		if sub.Verdict == "TLE" {
			last.CPUUS, last.Reason, last.Message = 1_000_400, "cpu", ""
		}
	}
	sub.CPUUS, sub.WallUS, sub.MemoryBytes = last.CPUUS, 4000, 3<<20
}

// Submissions implements httpapi.Service.
func (f *Fake) Submissions(ctx context.Context, filter httpapi.SubmissionFilter) (gavelapi.SubmissionList, error) {
	if err := f.enter(ctx, "Submissions"); err != nil {
		return gavelapi.SubmissionList{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []gavelapi.Submission
	match := func(want, have string) bool { return want == "" || want == have }
	for _, s := range slices.Backward(f.subs) {
		if match(filter.Problem, s.Problem) && match(filter.User, s.User) && match(filter.Language, s.Language) &&
			match(filter.State, s.State) && match(filter.Verdict, s.Verdict) {
			s.Detail = nil
			list = append(list, s)
		}
	}
	items, next, err := page(list, filter.Cursor, filter.Limit)
	return gavelapi.SubmissionList{Submissions: items, Next: next}, err
}

// SubmissionSource implements httpapi.Service.
func (f *Fake) SubmissionSource(ctx context.Context, id int64) (gavelapi.SubmissionSource, error) {
	if err := f.enter(ctx, "SubmissionSource"); err != nil {
		return gavelapi.SubmissionSource{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if id < 1 || id > int64(len(f.sources)) {
		return gavelapi.SubmissionSource{}, apperr.New(apperr.NotFound, "list them: gavel submission list", "there is no submission %d", id)
	}
	return f.sources[id-1], nil
}

// SubmissionOutputs implements httpapi.Service: every one that is final and not
// AC wrote the same.
func (f *Fake) SubmissionOutputs(ctx context.Context, id int64) (gavelapi.SubmissionOutputs, error) {
	if err := f.enter(ctx, "SubmissionOutputs"); err != nil {
		return gavelapi.SubmissionOutputs{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if id < 1 || id > int64(len(f.subs)) {
		return gavelapi.SubmissionOutputs{}, apperr.New(apperr.NotFound, "list them: gavel submission list", "there is no submission %d", id)
	}
	out := gavelapi.SubmissionOutputs{SubmissionID: id, JudgingID: id, Outputs: []gavelapi.TestOutput{}}
	if v := f.subs[id-1].Verdict; v != "" && v != "AC" {
		out.Outputs = append(out.Outputs, gavelapi.TestOutput{Test: "secret/2", Stdout: "1\n\x1b[2J2\n", StdoutCut: true, Stderr: "trying harder\n"})
	}
	return out, nil
}

// CancelSubmission implements httpapi.Service.
func (f *Fake) CancelSubmission(ctx context.Context, _ auth.Principal, id int64, _ string) (gavelapi.Submission, error) {
	if err := f.enter(ctx, "CancelSubmission"); err != nil {
		return gavelapi.Submission{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if id < 1 || id > int64(len(f.subs)) {
		return gavelapi.Submission{}, apperr.New(apperr.NotFound, "list them: gavel submission list", "there is no submission %d", id)
	}
	sub := &f.subs[id-1]
	if gavelapi.Final(sub.State) {
		return gavelapi.Submission{}, apperr.New(apperr.Conflict, "nothing is left to cancel", "the submission is final already (%s)", sub.State)
	}
	sub.State, sub.Waiting, sub.Progress = gavelapi.StateCancelled, "", nil
	return *sub, nil
}

var _ httpapi.Service = (*Fake)(nil)
