package httpapi

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/auth"
)

// Service is what the API needs from the arbiter. Every method may be called
// concurrently and returns soon after its context ends. Errors are
// *apperr.Error where a person can do something about them; any other error
// is answered 500 and shown to operators only.
//
// The API has already checked the kind of the principal, the protocol
// version and the shape of the request; the Service checks what depends on
// stored facts.
type Service interface {
	// Authenticate resolves a bearer token; apperr.Unauthorized when it is
	// unknown, expired or revoked.
	Authenticate(ctx context.Context, token string) (auth.Principal, error)

	// Enrol trades an invitation for a worker's token. It needs no principal.
	Enrol(ctx context.Context, req gavelapi.EnrolRequest) (gavelapi.EnrolResponse, error)
	// Claim waits up to req.WaitMS for leases; no leases are answered 204. It
	// is idempotent by RequestID. The grant is committed before it returns.
	Claim(ctx context.Context, p auth.Principal, req gavelapi.ClaimRequest) (gavelapi.ClaimResponse, error)
	// Heartbeat extends a lease; apperr.Gone with the LeaseEnd in Field when
	// it is dead.
	Heartbeat(ctx context.Context, p auth.Principal, req gavelapi.HeartbeatRequest) (gavelapi.HeartbeatResponse, error)
	// Result records a report once; idempotent by lease token.
	Result(ctx context.Context, p auth.Principal, req gavelapi.ResultRequest) (gavelapi.ResultResponse, error)
	// Release hands a lease back; idempotent.
	Release(ctx context.Context, p auth.Principal, req gavelapi.ReleaseRequest) (gavelapi.ReleaseResponse, error)
	// OpenPackage opens a package that the worker needs for a lease it holds.
	OpenPackage(ctx context.Context, p auth.Principal, digest string) (PackageBlob, error)

	// CreateSubmission stores a submission. With an idempotency key it is
	// stored once per key and principal, and replayed says that it was there
	// already: the same key with another bodyHash is apperr.Invalid, a key
	// whose first request is still running is apperr.Conflict. apperr.TooMany
	// when the user has too much waiting already.
	CreateSubmission(ctx context.Context, p auth.Principal, idempotencyKey string, bodyHash []byte, sub gavelapi.NewSubmission) (s gavelapi.Submission, replayed bool, err error)
	// Submission reads one with its detail. With a wait it returns when the
	// submission is final, has changed, or the wait is over.
	Submission(ctx context.Context, id int64, wait time.Duration) (gavelapi.Submission, error)
	// Submissions lists newest first, without detail.
	Submissions(ctx context.Context, filter SubmissionFilter) (gavelapi.SubmissionList, error)
	// SubmissionSource reads what was handed in.
	SubmissionSource(ctx context.Context, id int64) (gavelapi.SubmissionSource, error)
	// SubmissionOutputs reads what was written in failed tests.
	SubmissionOutputs(ctx context.Context, id int64) (gavelapi.SubmissionOutputs, error)
	// CancelSubmission cancels what is not final; apperr.Conflict otherwise.
	CancelSubmission(ctx context.Context, p auth.Principal, id int64, reason string) (gavelapi.Submission, error)

	// CreateRun stores a run, with the key and the refusals of CreateSubmission;
	// a key is forgotten with its run.
	CreateRun(ctx context.Context, p auth.Principal, idempotencyKey string, bodyHash []byte, n gavelapi.NewRun) (run gavelapi.Run, replayed bool, err error)
	// ReadRun reads one, waiting as Submission does; apperr.NotFound also when
	// it has expired.
	ReadRun(ctx context.Context, id int64, wait time.Duration) (gavelapi.Run, error)
	// CancelRun cancels what is not final; apperr.Conflict otherwise.
	CancelRun(ctx context.Context, p auth.Principal, id int64) (gavelapi.Run, error)

	// Worker, ChangeWorker, LabelWorker and RemoveWorker are apperr.NotFound
	// for a name that nobody has. Each change is written to the audit trail.
	Worker(ctx context.Context, name string) (gavelapi.WorkerInfo, error)
	ChangeWorker(ctx context.Context, p auth.Principal, name string, c gavelapi.WorkerChange) (gavelapi.WorkerInfo, error)
	LabelWorker(ctx context.Context, p auth.Principal, name string, l gavelapi.WorkerLabels) (gavelapi.WorkerInfo, error)
	RemoveWorker(ctx context.Context, p auth.Principal, name, reason string) error
	Pools(ctx context.Context) (gavelapi.PoolList, error)
	SetPool(ctx context.Context, p auth.Principal, name string, s gavelapi.PoolSettings) (gavelapi.Pool, error)
	Queue(ctx context.Context) (gavelapi.Queue, error)
	SetBrake(ctx context.Context, p auth.Principal, b gavelapi.Brake) error
	ReleaseBrake(ctx context.Context, p auth.Principal, kind, name, reason string) error
	// BumpSubmission is apperr.Conflict for what does not wait.
	BumpSubmission(ctx context.Context, p auth.Principal, id int64, reason string) (gavelapi.Submission, error)
	Audit(ctx context.Context, subject, cursor string, limit int) (gavelapi.AuditList, error)
	Explain(ctx context.Context, id int64) (gavelapi.Explanation, error)
	// StartRejudge plans a rejudge and returns at once; apperr.Conflict when
	// everything selected is in another one already.
	StartRejudge(ctx context.Context, p auth.Principal, n gavelapi.NewRejudge) (gavelapi.Rejudge, error)
	// RejudgeSubmission rejudges one and applies the verdict by itself;
	// repeating it while it runs gives the same rejudge.
	RejudgeSubmission(ctx context.Context, p auth.Principal, id int64, reason string) (gavelapi.Rejudge, error)
	Rejudge(ctx context.Context, id int64) (gavelapi.Rejudge, error)
	Rejudges(ctx context.Context, cursor string, limit int) (gavelapi.RejudgeList, error)
	RejudgeChanges(ctx context.Context, id int64, onlyChanged bool, cursor string, limit int) (gavelapi.RejudgeChangeList, error)
	// ApplyRejudge makes new verdicts current, those of the named submissions
	// or all; DiscardRejudge keeps the old ones; CancelRejudge stops one that
	// runs. All may be repeated; a state that forbids them is apperr.Conflict.
	ApplyRejudge(ctx context.Context, p auth.Principal, id int64, submissions []int64, reason string) (gavelapi.Rejudge, error)
	DiscardRejudge(ctx context.Context, p auth.Principal, id int64, reason string) (gavelapi.Rejudge, error)
	CancelRejudge(ctx context.Context, p auth.Principal, id int64, reason string) (gavelapi.Rejudge, error)
	// Account says what a user has solved.
	Account(ctx context.Context, user string) (gavelapi.Account, error)

	// ImportProblem has a package prepared, or publishes it. The upload is an
	// unlinked temporary file of size bytes at an arbitrary offset; the API
	// closes it afterwards.
	ImportProblem(ctx context.Context, p auth.Principal, in Import, upload *os.File, size int64) (gavelapi.ProblemInfo, error)
	Problem(ctx context.Context, name string) (gavelapi.ProblemInfo, error)
	// PreparationReport reads the report of a problem's newest import (id 0) or
	// of another one, waiting as Submission does.
	PreparationReport(ctx context.Context, name string, id int64, wait time.Duration) (gavelapi.PreparationReport, error)
	Problems(ctx context.Context, cursor string, limit int) (gavelapi.ProblemList, error)
	Languages(ctx context.Context) (gavelapi.LanguageList, error)
	Workers(ctx context.Context) (gavelapi.WorkerList, error)
	// Invite makes a one-time invitation; its code is in the answer only.
	Invite(ctx context.Context, p auth.Principal, inv gavelapi.NewInvitation) (gavelapi.Invitation, error)

	// WorkerHealth says what was seen of a worker's work.
	WorkerHealth(ctx context.Context, name string) (gavelapi.WorkerHealth, error)
	// ResetHealth forgets what counts against a worker; it may be repeated.
	ResetHealth(ctx context.Context, p auth.Principal, name string, reset gavelapi.HealthReset) (gavelapi.WorkerHealth, error)
	// SetWorkerHours and SetPoolHours replace planned hours; apperr.Invalid
	// says what cannot be read. Empty hours end them.
	SetWorkerHours(ctx context.Context, p auth.Principal, name string, h gavelapi.NewHours) (gavelapi.PlannedHours, error)
	SetPoolHours(ctx context.Context, p auth.Principal, pool string, h gavelapi.NewHours) (gavelapi.PlannedHours, error)

	// Alarms lists newest first; a kind that does not exist is apperr.Invalid.
	Alarms(ctx context.Context, open bool, kind, cursor string, limit int) (gavelapi.AlarmList, error)
	Alarm(ctx context.Context, id int64) (gavelapi.Alarm, error)

	Webhooks(ctx context.Context) (gavelapi.WebhookList, error)
	// AddWebhook is apperr.Conflict for a name that is taken; the secret is in
	// its answer only.
	AddWebhook(ctx context.Context, p auth.Principal, n gavelapi.NewWebhook) (gavelapi.Webhook, error)
	// RotateWebhook gives it another secret, which is in its answer only;
	// apperr.Conflict when too many old ones sign. It may be repeated.
	RotateWebhook(ctx context.Context, p auth.Principal, name string, r gavelapi.WebhookRotation) (gavelapi.Webhook, error)
	RemoveWebhook(ctx context.Context, p auth.Principal, name, reason string) error
	// TestWebhook puts a message on its way; Deliveries says what became of it.
	TestWebhook(ctx context.Context, p auth.Principal, name, reason string) (gavelapi.Delivery, error)
	Deliveries(ctx context.Context, name, cursor string, limit int) (gavelapi.DeliveryList, error)
	Redeliver(ctx context.Context, p auth.Principal, id int64, reason string) error

	// Ready says, for each part that granting needs, "ok" or what is wrong.
	Ready(ctx context.Context) (checks map[string]string, ok bool)
}

// PackageBlob is an open package. Its content never changes, so its digest
// serves as the ETag.
type PackageBlob struct {
	io.ReadSeekCloser
	Size int64
}

// Import says how a package is imported.
type Import struct {
	Name   string // "" lets the package name itself
	Verify string // gavelapi.VerifyAll…; "" is everything
	Reason string // of publishing what was not verified
}

// SubmissionFilter selects submissions; an empty field selects all. Cursor is
// what an earlier page gave as Next; Limit is 1…200.
type SubmissionFilter struct {
	Problem  string
	User     string
	Language string
	State    string
	Verdict  string
	Cursor   string
	Limit    int
}
