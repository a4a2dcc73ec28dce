// Package apitest is an arbiter in memory for tests of what talks to one over
// HTTP: it implements httpapi.Service without a database, workers or a clock,
// and judges by what the source says of itself. It is no second store: nothing
// of it runs outside of tests.
package apitest

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/auth"
	"github.com/gavel-oj/gavel/internal/httpapi"
)

// Tokens that a Fake knows.
const (
	AdminToken  = "gvl_a_ADMINADMINADMINADMINADMINA"
	SiteToken   = "gvl_u_SITESITESITESITESITESITESI"
	WorkerToken = "gvl_w_WORKERWORKERWORKERWORKERWO"
	InviteCode  = "gvl_i_INVITEINVITEINVITEINVITEIN"
)

// LeaseToken is the token of the one lease that a Fake grants.
const LeaseToken = "6f0d7a1e-0000-4000-8000-00000000a11e"

// Epoch is the first instant of a Fake; its time moves a second per submission.
var Epoch = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

// Package is the content of the package that a Fake serves, Digest its name.
var (
	Package = bytes.Repeat([]byte("package bytes "), 10_000)
	Digest  = digestOf(Package)
)

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Fake implements httpapi.Service in memory.
type Fake struct {
	// Known are the languages, Fleet the workers; set them before serving.
	Known []gavelapi.LanguageInfo
	Fleet []gavelapi.WorkerInfo

	mu       sync.Mutex
	before   func(ctx context.Context, method string) error
	notReady map[string]string
	subs     []gavelapi.Submission
	sources  []gavelapi.SubmissionSource
	outcome  map[int64]string // verdict to come
	keys     map[string]keyed
	problems []gavelapi.ProblemInfo
	prepared map[string]gavelapi.PreparationReport // by problem
	rejudges []gavelapi.Rejudge
	pools    []gavelapi.Pool
	brakes   []gavelapi.Brake
	audit    []gavelapi.AuditEntry
	hooks    []gavelapi.Webhook
	hours    map[string]gavelapi.PlannedHours // by worker
	runs     []fakeRun
	released bool
	recorded bool
	reset    bool
}

type keyed struct {
	id   int64
	hash string
}

var published = Epoch

// New makes a Fake with two problems, five languages and two workers.
func New() *Fake {
	seen := Epoch.Add(time.Hour)
	return &Fake{
		outcome: map[int64]string{},
		keys:    map[string]keyed{},
		problems: []gavelapi.ProblemInfo{
			{Name: "aplusb", Title: "A + B", PackageDigest: Digest, Version: 1, Format: "icpc-2025-09", Tests: 3, CPUMS: 1000, MemoryBytes: 256 << 20, SizeBytes: 4096, PublishedAt: &published},
			{Name: "wide", Title: "A problem whose title is so long that no table could show the whole of it", PackageDigest: Digest, Version: 12, Format: "icpc-legacy", Tests: 120, CPUMS: 2500, MemoryBytes: 1 << 30, SizeBytes: 300 << 20, PublishedAt: &published},
		},
		Known: []gavelapi.LanguageInfo{
			{ID: "c", Name: "C", Extensions: []string{"c"}, Versions: []string{"gcc 12.2.0"}},
			{ID: "cpp17", Name: "C++17", Extensions: []string{"cpp", "cc", "cxx"}, DefaultFor: []string{"cpp", "cc"}, Versions: []string{"g++ 12.2.0"}},
			{ID: "cpp20", Name: "C++20", Extensions: []string{"cpp", "cc", "cxx"}, Versions: []string{"g++ 12.2.0"}},
			{ID: "python3", Name: "Python 3", Extensions: []string{"py"}, Versions: []string{"CPython 3.11.2", "CPython 3.12.1"}},
			{ID: "rust", Name: "Rust", Extensions: []string{"rs"}},
		},
		Fleet: []gavelapi.WorkerInfo{
			{ID: 1, Name: "home-pc", Pool: "home", State: "busy", Slots: 4, Leases: 2, LastSeenAt: &seen, EnrolledAt: Epoch, Capabilities: gavelapi.Capabilities{
				Languages: []gavelapi.LanguageOffer{{ID: "cpp17", Version: "g++ 12.2.0"}, {ID: "python3", Version: "CPython 3.11.2"}}, MemoryBytes: 8 << 30, Cores: 4, Arch: "amd64", Build: "0.1.0", Kernel: "6.1.0", MemoryMeter: "cgroup2", Sandbox: "v2",
			}},
			{ID: 2, Name: "server-1", Pool: "default", State: "offline", Slots: 2, EnrolledAt: Epoch},
		},
	}
}

// Before sets what is called at the start of every method with its name; its
// error is the method's. It may block or panic.
func (f *Fake) Before(hook func(ctx context.Context, method string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = hook
}

// NotReady sets the failing checks.
func (f *Fake) NotReady(checks map[string]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notReady = checks
}

func (f *Fake) enter(ctx context.Context, method string) error {
	f.mu.Lock()
	hook := f.before
	f.mu.Unlock()
	if hook != nil {
		return hook(ctx, method)
	}
	return nil
}

// Authenticate implements httpapi.Service.
func (f *Fake) Authenticate(ctx context.Context, token string) (auth.Principal, error) {
	if err := f.enter(ctx, "Authenticate"); err != nil {
		return auth.Principal{}, err
	}
	switch token {
	case AdminToken:
		return auth.Principal{Kind: auth.Admin, TokenID: 1}, nil
	case SiteToken:
		return auth.Principal{Kind: auth.Site, TokenID: 2}, nil
	case WorkerToken:
		return auth.Principal{Kind: auth.Worker, TokenID: 3, WorkerID: 1, WorkerName: "home-pc"}, nil
	}
	return auth.Principal{}, apperr.New(apperr.Unauthorized, "check the token", "the token is not known here")
}

// Enrol implements httpapi.Service.
func (f *Fake) Enrol(ctx context.Context, req gavelapi.EnrolRequest) (gavelapi.EnrolResponse, error) {
	if err := f.enter(ctx, "Enrol"); err != nil {
		return gavelapi.EnrolResponse{}, err
	}
	if req.Invitation != InviteCode {
		return gavelapi.EnrolResponse{}, apperr.New(apperr.Forbidden, "ask for a new one", "the invitation is unknown, used or expired").At("body.invitation")
	}
	return gavelapi.EnrolResponse{WorkerID: 3, Name: req.Name, Pool: "default", Token: WorkerToken}, nil
}

// Claim implements httpapi.Service: the first claim gets a lease, later ones
// get nothing.
func (f *Fake) Claim(ctx context.Context, _ auth.Principal, _ gavelapi.ClaimRequest) (gavelapi.ClaimResponse, error) {
	if err := f.enter(ctx, "Claim"); err != nil {
		return gavelapi.ClaimResponse{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.released || f.recorded {
		return gavelapi.ClaimResponse{}, nil
	}
	return gavelapi.ClaimResponse{Leases: []gavelapi.Lease{{
		JobID: 1, Kind: "judge", Attempt: 1, LeaseToken: LeaseToken, LeaseGen: 1, TTLMS: 60_000, ConfirmMS: 10_000, HeartbeatMS: 5000,
		SubmissionID: 1, Language: "cpp17", Source: []byte("int main(){}"), Problem: "aplusb", PackageDigest: Digest, StopRule: "first",
	}}}, nil
}

// Heartbeat implements httpapi.Service.
func (f *Fake) Heartbeat(ctx context.Context, _ auth.Principal, req gavelapi.HeartbeatRequest) (gavelapi.HeartbeatResponse, error) {
	if err := f.enter(ctx, "Heartbeat"); err != nil {
		return gavelapi.HeartbeatResponse{}, err
	}
	if req.LeaseToken != LeaseToken {
		return gavelapi.HeartbeatResponse{}, apperr.New(apperr.Gone, "stop the run", "the lease is dead").At(gavelapi.LeaseExpired)
	}
	return gavelapi.HeartbeatResponse{TTLMS: 60_000}, nil
}

// Result implements httpapi.Service.
func (f *Fake) Result(ctx context.Context, _ auth.Principal, req gavelapi.ResultRequest) (gavelapi.ResultResponse, error) {
	if err := f.enter(ctx, "Result"); err != nil {
		return gavelapi.ResultResponse{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case req.LeaseToken != LeaseToken:
		return gavelapi.ResultResponse{Outcome: gavelapi.OutcomeDiscarded, Reason: gavelapi.LeaseUnknown}, nil
	case f.recorded:
		return gavelapi.ResultResponse{Outcome: gavelapi.OutcomeAlreadyRecorded}, nil
	}
	f.recorded = true
	return gavelapi.ResultResponse{Outcome: gavelapi.OutcomeRecorded}, nil
}

// Release implements httpapi.Service.
func (f *Fake) Release(ctx context.Context, _ auth.Principal, req gavelapi.ReleaseRequest) (gavelapi.ReleaseResponse, error) {
	if err := f.enter(ctx, "Release"); err != nil {
		return gavelapi.ReleaseResponse{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if req.LeaseToken != LeaseToken || f.released {
		return gavelapi.ReleaseResponse{Reason: gavelapi.LeaseReleased}, nil
	}
	f.released = true
	return gavelapi.ReleaseResponse{Released: true}, nil
}

type blob struct{ *bytes.Reader }

func (blob) Close() error { return nil }

// OpenPackage implements httpapi.Service.
func (f *Fake) OpenPackage(ctx context.Context, _ auth.Principal, digest string) (httpapi.PackageBlob, error) {
	if err := f.enter(ctx, "OpenPackage"); err != nil {
		return httpapi.PackageBlob{}, err
	}
	if digest != Digest {
		return httpapi.PackageBlob{}, apperr.New(apperr.NotFound, "claim first", "no lease of this worker needs that package")
	}
	return httpapi.PackageBlob{ReadSeekCloser: blob{bytes.NewReader(Package)}, Size: int64(len(Package))}, nil
}

// ImportProblem implements httpapi.Service: anything that starts like a zip is
// a package. Its preparation ends when somebody waits for it.
func (f *Fake) ImportProblem(ctx context.Context, _ auth.Principal, in httpapi.Import, upload *os.File, size int64) (gavelapi.ProblemInfo, error) {
	if err := f.enter(ctx, "ImportProblem"); err != nil {
		return gavelapi.ProblemInfo{}, err
	}
	if _, err := upload.Seek(0, io.SeekStart); err != nil {
		return gavelapi.ProblemInfo{}, err
	}
	data, err := io.ReadAll(upload)
	if err != nil {
		return gavelapi.ProblemInfo{}, err
	}
	if int64(len(data)) != size {
		return gavelapi.ProblemInfo{}, fmt.Errorf("size is %d, file has %d bytes", size, len(data))
	}
	if !bytes.HasPrefix(data, []byte("PK")) {
		return gavelapi.ProblemInfo{}, apperr.New(apperr.Invalid, "send a zip of the package directory", "the upload is not a zip file (it looks like text)")
	}
	name := cmp.Or(in.Name, topOf(data), "unnamed")
	info := gavelapi.ProblemInfo{Name: name, Title: "Imported", PackageDigest: digestOf(data), Version: 1, Format: "icpc-legacy", Tests: 2, CPUMS: 1000, MemoryBytes: 64 << 20, SizeBytes: size, PublishedAt: &published}
	f.mu.Lock()
	defer f.mu.Unlock()
	prepare := func() {
		if in.Verify == gavelapi.VerifyNone {
			return
		}
		info.Preparation = &gavelapi.Preparation{
			ID: 31, Problem: name, PackageDigest: info.PackageDigest, Verify: in.Verify, State: gavelapi.PreparationPreparing,
			Steps: 2, Waiting: "it is the next", CreatedAt: Epoch,
		}
		if f.prepared == nil {
			f.prepared = map[string]gavelapi.PreparationReport{}
		}
		f.prepared[name] = gavelapi.PreparationReport{Preparation: *info.Preparation, Rows: []gavelapi.ReportRow{
			{Finding: gavelapi.Finding{Step: gavelapi.StepChecker, Outcome: gavelapi.FindingWaiting, Detail: "it is the next"}},
		}}
	}
	for i, p := range f.problems {
		if p.Name != name {
			continue
		}
		if p.PackageDigest == info.PackageDigest {
			p.Unchanged = true
			return p, nil
		}
		prepare()
		info.Version = p.Version + 1
		f.problems[i] = info
		return info, nil
	}
	info.Warnings = []string{"submissions/accepted: no example submission"}
	prepare()
	f.problems = append(f.problems, info)
	info.Warnings = slices.Clone(info.Warnings)
	return info, nil
}

// topOf is the directory that a zip begins with.
func topOf(data []byte) string {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil || len(z.File) == 0 {
		return ""
	}
	top, _, _ := strings.Cut(z.File[0].Name, "/")
	return top
}

// PreparationReport implements httpapi.Service: of a problem that is called
// broken something is wrong.
func (f *Fake) PreparationReport(ctx context.Context, name string, id int64, wait time.Duration) (gavelapi.PreparationReport, error) {
	if err := f.enter(ctx, "PreparationReport"); err != nil {
		return gavelapi.PreparationReport{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	rep, ok := f.prepared[name]
	if !ok || id != 0 && id != rep.ID {
		return rep, apperr.New(apperr.NotFound, "gavel problem list shows the problems", "there is no such report of a problem%s", apperr.Named(name))
	}
	if wait == 0 || rep.State != gavelapi.PreparationPreparing {
		return rep, nil
	}
	rep.State, rep.Waiting, rep.StepsDone, rep.FinishedAt, rep.Version = gavelapi.PreparationPublished, "", rep.Steps, &published, 1
	rep.Rows = []gavelapi.ReportRow{
		{Finding: gavelapi.Finding{Step: "answers", What: "2 tests", Outcome: gavelapi.FindingOK, TookUS: 1200}, Worker: "w-1"},
		{Finding: gavelapi.Finding{Step: "submission", What: "submissions/accepted/a.cpp", Outcome: gavelapi.FindingOK, Detail: "AC, as declared", TookUS: 812_000}, Worker: "w-1"},
	}
	if name == "broken" {
		rep.State, rep.Version, rep.Message = gavelapi.PreparationFailed, 0, "1 of 2 steps found something wrong with the package"
		rep.Rows[1].Outcome, rep.Rows[1].Detail = gavelapi.FindingFailed, "WA, declared is AC: secret/02: 3 instead of 4"
	}
	f.prepared[name] = rep
	for i := range f.problems {
		if f.problems[i].Name == name {
			f.problems[i].Preparation = &rep.Preparation
		}
	}
	return rep, nil
}

// Problem implements httpapi.Service.
func (f *Fake) Problem(ctx context.Context, name string) (gavelapi.ProblemInfo, error) {
	if err := f.enter(ctx, "Problem"); err != nil {
		return gavelapi.ProblemInfo{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.problems {
		if p.Name == name {
			return p, nil
		}
	}
	return gavelapi.ProblemInfo{}, apperr.New(apperr.NotFound, "list them: gavel problem list", "there is no problem%s", apperr.Named(name))
}

// Problems implements httpapi.Service.
func (f *Fake) Problems(ctx context.Context, cursor string, limit int) (gavelapi.ProblemList, error) {
	if err := f.enter(ctx, "Problems"); err != nil {
		return gavelapi.ProblemList{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	list := slices.SortedFunc(slices.Values(f.problems), func(a, b gavelapi.ProblemInfo) int { return cmp.Compare(a.Name, b.Name) })
	items, next, err := page(list, cursor, limit)
	return gavelapi.ProblemList{Problems: items, Next: next}, err
}

// page cuts a list; the cursor is an offset in the form that clients must not
// rely on.
func page[T any](list []T, cursor string, limit int) (items []T, next string, err error) {
	from := 0
	if cursor != "" {
		if from, err = strconv.Atoi(strings.TrimPrefix(cursor, "at-")); err != nil || from > len(list) {
			return nil, "", apperr.New(apperr.Invalid, "start again without a cursor", "the cursor is not one of this list").At("query.cursor")
		}
	}
	to := min(from+limit, len(list))
	if to < len(list) {
		next = fmt.Sprintf("at-%d", to)
	}
	return list[from:to], next, nil
}

// Languages implements httpapi.Service.
func (f *Fake) Languages(ctx context.Context) (gavelapi.LanguageList, error) {
	if err := f.enter(ctx, "Languages"); err != nil {
		return gavelapi.LanguageList{}, err
	}
	return gavelapi.LanguageList{Languages: f.Known}, nil
}

// Workers implements httpapi.Service.
func (f *Fake) Workers(ctx context.Context) (gavelapi.WorkerList, error) {
	if err := f.enter(ctx, "Workers"); err != nil {
		return gavelapi.WorkerList{}, err
	}
	return gavelapi.WorkerList{Workers: f.Fleet}, nil
}

// Invite implements httpapi.Service.
func (f *Fake) Invite(ctx context.Context, _ auth.Principal, inv gavelapi.NewInvitation) (gavelapi.Invitation, error) {
	if err := f.enter(ctx, "Invite"); err != nil {
		return gavelapi.Invitation{}, err
	}
	valid := cmp.Or(inv.ValidSeconds, 3600)
	return gavelapi.Invitation{Code: InviteCode, Pool: cmp.Or(inv.Pool, "default"), ExpiresAt: Epoch.Add(time.Duration(valid) * time.Second)}, nil
}

// Ready implements httpapi.Service.
func (f *Fake) Ready(ctx context.Context) (map[string]string, bool) {
	if err := f.enter(ctx, "Ready"); err != nil {
		return map[string]string{"arbiter": err.Error()}, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.notReady) > 0 {
		return f.notReady, false
	}
	return map[string]string{"leader": "ok", "database": "ok", "dispatch": "ok"}, true
}
