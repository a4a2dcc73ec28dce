package arbiter_test

import (
	"archive/zip"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/httpapi"
)

// tree is a package's files by path.
type tree map[string]string

// packageOf has a validator and so many declared submissions, beside more.
func packageOf(title string, submissions int, more tree) tree {
	t := tree{
		"problem.yaml":           "problem_format_version: 2025-09\nname: " + title + "\nuuid: 7c0ffee0-0000-4000-8000-000000000002\n",
		"data/secret/1.in":       "1\n",
		"data/secret/1.ans":      "1\n",
		"input_validators/v.cpp": "int main() { return 42; }\n",
	}
	for i := range submissions {
		t[fmt.Sprintf("submissions/accepted/s%02d.c", i)] = "int main(){}"
	}
	maps.Copy(t, more)
	return t
}

func (s *stand) tryImport(in httpapi.Import, files tree) (gavelapi.ProblemInfo, error) {
	s.t.Helper()
	f, err := os.CreateTemp(s.t.TempDir(), "*.zip")
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	z := zip.NewWriter(f)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write([]byte(files[name]))
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		s.t.Fatal(err)
	}
	st, err := f.Stat()
	if err != nil {
		s.t.Fatal(err)
	}
	return s.ImportProblem(s.t.Context(), s.admin, in, f, st.Size())
}

func (s *stand) imports(name string, files tree) gavelapi.ProblemInfo {
	s.t.Helper()
	info, err := s.tryImport(httpapi.Import{Name: name}, files)
	if err != nil {
		s.t.Fatal(err)
	}
	return info
}

func (s *stand) problem(name string) gavelapi.ProblemInfo {
	s.t.Helper()
	info, err := s.Problem(s.t.Context(), name)
	if err != nil {
		s.t.Fatal(err)
	}
	return info
}

func (s *stand) preparation(name string, id int64) gavelapi.PreparationReport {
	s.t.Helper()
	rep, err := s.PreparationReport(s.t.Context(), name, id, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	return rep
}

// preparer is a worker that prepares packages.
func (s *stand) preparer(name string, slots int) *fake {
	f := s.worker(name, slots, "c", "cpp17", "cpp20")
	f.features = []string{gavelapi.FeaturePrepare}
	return f
}

func found(outcome, detail string) gavelapi.Report {
	return gavelapi.Report{Prepare: &gavelapi.PrepareReport{Findings: []gavelapi.Finding{{Step: "build", What: "x", Outcome: outcome, Detail: detail, TookUS: 5}}}}
}

func got(verdict, detail string) gavelapi.Report {
	r := found(gavelapi.FindingOK, detail)
	r.Prepare.Verdict = verdict
	r.Prepare.Findings[0].Step = "submission"
	return r
}

// step holds the next lease, which must be a step of preparing, and reports it.
func (f *fake) step(kind string, r gavelapi.Report) gavelapi.Lease {
	f.s.t.Helper()
	l := f.hold()
	if l.Kind != "prepare" || l.Prepare == nil || l.Prepare.Step != kind {
		f.s.t.Fatalf("not the step %q: %s", kind, asJSON(l))
	}
	if got := f.report(l.LeaseToken, r); got.Outcome != gavelapi.OutcomeRecorded {
		f.s.t.Fatalf("%+v", got)
	}
	return l
}

func TestAPackageIsPublishedWhenItsStepsAreDone(t *testing.T) {
	s := newStand(t, quick)
	info := s.imports("echo", packageOf("Echo", 1, tree{"submissions/wrong_answer/w.c": "int main(){}"}))
	if p := info.Preparation; info.Version != 0 || info.PackageDigest != "" || info.PublishedAt != nil || p == nil || p.State != "preparing" || p.Steps != 4 || p.StepsDone != 0 {
		t.Fatalf("%s", asJSON(info))
	}
	if rep := s.preparation("echo", 0); rep.Waiting == "" || len(rep.Rows) != 4 || rep.Rows[0].Outcome != "waiting" || rep.Rows[0].Detail == "" {
		t.Errorf("%s", asJSON(rep))
	}
	w := s.preparer("w", 1)
	l := w.step("checker", found("ok", ""))
	if l.SubmissionID != 0 || l.Problem != "echo" || l.PackageDigest != info.Preparation.PackageDigest {
		t.Errorf("%s", asJSON(l))
	}
	w.step("validator", found("ok", ""))
	if l := w.step("submission", got("AC", "1 tests")); l.Prepare.Path != "submissions/accepted/s00.c" || l.Language != "c" || l.Limits.CPUUS != 1_000_000 {
		t.Errorf("%s", asJSON(l))
	}
	if n := s.problem("echo"); n.Version != 0 {
		t.Errorf("published before its last step: %s", asJSON(n))
	}
	waited := make(chan gavelapi.PreparationReport)
	go func() {
		rep, err := s.PreparationReport(t.Context(), "echo", 0, 20*time.Second)
		if err != nil {
			t.Error(err)
		}
		waited <- rep
	}()
	w.step("submission", got("WA", "on test secret/1"))
	<-waited
	n := s.problem("echo")
	if n.Version != 1 || n.PackageDigest == "" || n.PublishedAt == nil || n.Preparation.State != "published" || n.Preparation.Version != 1 {
		t.Fatalf("%s", asJSON(n))
	}
	rep := s.preparation("echo", 0)
	if len(rep.Rows) != 4 || rep.Rows[3].Detail != "WA, as declared: on test secret/1" || rep.Rows[3].Worker != "w" || rep.Rows[3].Outcome != "ok" {
		t.Errorf("%s", asJSON(rep))
	}
	if n := s.number("select (select count(*) from submissions) + (select count(*) from jobs)"); n != 0 {
		t.Errorf("%d submissions or open jobs are left", n)
	}
	if again := s.imports("echo", packageOf("Echo", 1, tree{"submissions/wrong_answer/w.c": "int main(){}"})); !again.Unchanged || again.Version != 1 {
		t.Errorf("%s", asJSON(again))
	}
}

func TestInputsThatAreNotValidAreAStepOfTheirOwn(t *testing.T) {
	s := newStand(t, quick)
	files := packageOf("Echo", 1, tree{"data/invalid_input/1.in": "x\n"})
	s.imports("echo", files)
	w := s.preparer("w", 1)
	w.step("checker", found("ok", ""))
	w.step("validator", found("ok", ""))
	if rep := s.preparation("echo", 0); len(rep.Rows) != 4 || rep.Rows[2].Step != "refusal" || rep.Rows[2].What != "data/invalid_input" || rep.Rows[2].Outcome != "waiting" {
		t.Errorf("%s", asJSON(rep))
	}
	if l := w.step("refusal", found("failed", "nobody refuses it")); l.Language != "cpp20" {
		t.Errorf("%s", asJSON(l))
	}
	if n := s.problem("echo"); n.Version != 0 || n.Preparation.State != "failed" {
		t.Errorf("%s", asJSON(n))
	}
	files["data/invalid_input/1.in"] = "y\n"
	s.imports("echo", files)
	for _, step := range []string{"checker", "validator", "refusal"} {
		w.step(step, found("ok", ""))
	}
	w.step("submission", got("AC", ""))
	if n := s.problem("echo"); n.Version != 1 {
		t.Errorf("%s", asJSON(n))
	}
}

func TestInvalidInputsGoToWhoHasTheLanguagesOfAllValidators(t *testing.T) {
	s := newStand(t, quick)
	s.imports("echo", packageOf("Echo", 1, tree{
		"data/invalid_input/1.in": "x\n", "input_validators/z1.py": "raise SystemExit(42)\n", "input_validators/z2.py": "raise SystemExit(42)\n",
	}))
	w := s.preparer("w", 1)
	w.step("checker", found("ok", ""))
	w.step("validator", found("ok", ""))
	if leases, err := w.tryClaim(0); err != nil || len(leases) != 0 {
		t.Fatalf("a worker without Python got %s, %v", asJSON(leases), err)
	}
	until(t, "the report says what the step waits for", func() bool {
		for _, row := range s.preparation("echo", 0).Rows {
			if row.Step == "refusal" && strings.Contains(row.Detail, "it does not offer python3") {
				return true
			}
		}
		return false
	})
	both := s.worker("both", 1, "cpp20", "python3")
	both.features = []string{gavelapi.FeaturePrepare}
	both.step("validator", found("ok", ""))
	both.step("validator", found("ok", ""))
	if l := both.step("refusal", found("ok", "")); l.Language != "cpp20" {
		t.Errorf("%s", asJSON(l))
	}
	w.step("submission", got("AC", ""))
	if n := s.problem("echo"); n.Version != 1 {
		t.Errorf("%s", asJSON(n))
	}
}

func TestTheLiveVersionStaysWhileAndAfterAnotherIsRefused(t *testing.T) {
	s := newStand(t, quick)
	before := s.problem("p")
	s.imports("p", packageOf("New", 1, nil))
	w := s.preparer("w", 1)
	w.step("checker", found("ok", ""))
	sub := s.submit("c")
	l := w.hold()
	if l.SubmissionID != sub.ID || l.PackageDigest != before.PackageDigest {
		t.Fatalf("a submission while a version is being prepared: %s", asJSON(l))
	}
	w.report(l.LeaseToken, verdictReport("AC"))
	w.step("validator", found("ok", ""))
	w.step("submission", got("TLE", "2 of 1 ms"))
	n := s.problem("p")
	if n.Version != 1 || n.PackageDigest != before.PackageDigest || n.Preparation.State != "failed" || n.Preparation.Fault != nil ||
		!strings.Contains(n.Preparation.Message, "1 of 3 steps") {
		t.Errorf("%s", asJSON(n))
	}
	if rep := s.preparation("p", 0); rep.Rows[2].Outcome != "failed" || rep.Rows[2].Detail != "TLE, declared is AC: 2 of 1 ms" {
		t.Errorf("%s", asJSON(rep))
	}
	if n := s.number("select count(*) from problem_versions"); n != 1 {
		t.Errorf("%d versions", n)
	}
}

func TestSubmissionsAreNotJudgedWhenAProgramIsAtFault(t *testing.T) {
	s := newStand(t, quick)
	s.imports("new", packageOf("New", 2, nil))
	w := s.preparer("w", 1)
	w.step("checker", found("ok", ""))
	w.step("validator", found("failed", "input validator does not compile"))
	rep := s.preparation("new", 0)
	if rep.State != "failed" || len(rep.Rows) != 4 || rep.Rows[2].Outcome != "skipped" || rep.Rows[3].Outcome != "skipped" {
		t.Errorf("%s", asJSON(rep))
	}
	if n := s.number("select count(*) from jobs"); n != 0 {
		t.Errorf("%d jobs are left", n)
	}
}

func TestAProblemThatIsNotPublishedSaysWhy(t *testing.T) {
	s := newStand(t, quick)
	try := func() error {
		_, _, err := s.CreateSubmission(t.Context(), s.admin, "", nil, gavelapi.NewSubmission{Problem: "new", Language: "c", Source: "int main(){}"})
		return err
	}
	if err := try(); apperr.CodeOf(err) != apperr.NotFound {
		t.Errorf("before its import: %v", err)
	}
	s.imports("new", packageOf("New", 0, nil))
	if err := try(); apperr.CodeOf(err) != apperr.Conflict || !strings.Contains(fmt.Sprint(err), "not published yet: it is being prepared (0 of 2 steps are done)") {
		t.Errorf("while it is prepared: %v", err)
	}
	w := s.preparer("w", 1)
	w.step("checker", found("failed", "no"))
	w.step("validator", found("ok", ""))
	if err := try(); apperr.CodeOf(err) != apperr.Conflict || !strings.Contains(fmt.Sprint(err), "its last version failed: 1 of 2 steps") {
		t.Errorf("after it failed: %v", err)
	}
	list, err := s.Problems(t.Context(), "", 10)
	if err != nil || len(list.Problems) != 2 || list.Problems[0].Name != "new" || list.Problems[0].Version != 0 || list.Problems[0].Preparation.State != "failed" {
		t.Errorf("%s %v", asJSON(list), err)
	}
}

func TestTheNewestImportWinsWhoeverIsDoneFirst(t *testing.T) {
	s := newStand(t, quick)
	first := s.imports("echo", packageOf("First", 0, nil)).Preparation
	w := s.preparer("w", 2)
	leases, err := w.tryClaim(10 * time.Second)
	if err != nil || len(leases) == 0 {
		t.Fatal(len(leases), err)
	}
	for _, l := range leases {
		if err := w.beat(l.LeaseToken); err != nil {
			t.Fatal(err)
		}
	}
	second := s.imports("echo", packageOf("Second", 0, nil)).Preparation
	if again := s.imports("echo", packageOf("Second", 0, nil)).Preparation; again.ID != second.ID {
		t.Errorf("the same import again began anew: %+v", again)
	}
	for _, l := range leases {
		if got := w.report(l.LeaseToken, found("ok", "")); got.Outcome != gavelapi.OutcomeDiscarded || got.Reason != gavelapi.LeaseCancelled {
			t.Errorf("a step of the older import: %+v", got)
		}
	}
	if rep := s.preparation("echo", first.ID); rep.State != "superseded" {
		t.Errorf("%s", asJSON(rep))
	}
	one := s.preparer("one", 1)
	one.step("checker", found("ok", ""))
	one.step("validator", found("ok", ""))
	if n := s.problem("echo"); n.Version != 1 || n.Title != "Second" || n.PackageDigest != second.PackageDigest {
		t.Errorf("%s", asJSON(n))
	}
	if n := s.number("select count(*) from jobs"); n != 0 {
		t.Errorf("%d jobs are left", n)
	}
}

func TestConcurrentImportsLeaveOneAtWork(t *testing.T) {
	s := newStand(t, quick)
	var done sync.WaitGroup
	for i := range 8 {
		done.Go(func() {
			if _, err := s.tryImport(httpapi.Import{Name: "echo"}, packageOf(fmt.Sprint("Echo ", i), 1, nil)); err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
	if n := s.number("select count(*) from preparations where state = 'preparing'"); n != 1 {
		t.Errorf("%d preparations are at work", n)
	}
	newest := s.number("select max(id) from preparations")
	if n := s.problem("echo").Preparation; n.ID != int64(newest) || n.State != "preparing" {
		t.Errorf("%+v, the newest is %d", n, newest)
	}
	w := s.preparer("w", 1)
	w.step("checker", found("ok", ""))
	w.step("validator", found("ok", ""))
	w.step("submission", got("AC", ""))
	if n := s.problem("echo"); n.Version != 1 || n.Preparation.ID != int64(newest) || n.Preparation.State != "published" {
		t.Errorf("%s", asJSON(n))
	}
}

func TestPublishingAtOnceIsForOperatorsAndWrittenDown(t *testing.T) {
	s := newStand(t, quick)
	at := s.imports("echo", packageOf("First", 0, nil)).Preparation
	info, err := s.tryImport(httpapi.Import{Name: "echo", Verify: gavelapi.VerifyNone, Reason: "the contest has begun"}, packageOf("Second", 0, nil))
	if err != nil || info.Version != 1 || info.Title != "Second" || info.Preparation.State != "published" || info.Preparation.Verify != "none" {
		t.Fatalf("%s %v", asJSON(info), err)
	}
	if rep := s.preparation("echo", at.ID); rep.State != "superseded" {
		t.Errorf("%s", asJSON(rep))
	}
	list, err := s.Audit(t.Context(), "echo", "", 10)
	if err != nil || len(list.Entries) != 1 || list.Entries[0].Action != "problem.publish-unverified" || list.Entries[0].Reason != "the contest has begun" {
		t.Errorf("%s %v", asJSON(list), err)
	}
}

func TestALostStepGoesToAnotherAndAtTheCapTheSystemIsToBlame(t *testing.T) {
	s := newStand(t, quick)
	s.imports("echo", packageOf("Echo", 1, nil))
	w := s.preparer("w", 1)
	for i := range quick.AttemptCap {
		l := w.hold()
		if l.Prepare == nil || l.Prepare.Step != "checker" || l.Attempt != i+1 {
			t.Fatalf("%s", asJSON(l))
		}
		if n := s.problem("echo").Preparation; n.State != "preparing" || n.StepsDone != 0 {
			t.Fatalf("%+v", n)
		}
		s.expire(l.LeaseToken)
		if got := w.report(l.LeaseToken, found("ok", "late")); got.Outcome != gavelapi.OutcomeDiscarded {
			t.Errorf("%+v", got)
		}
	}
	w.step("validator", found("failed", "and the package is wrong, too"))
	rep := s.preparation("echo", 0)
	if rep.State != "failed" || rep.Fault == nil || rep.Fault.Blame != gavelapi.BlameHost || rep.Rows[0].Outcome != "fault" || rep.Rows[2].Outcome != "skipped" {
		t.Errorf("%s", asJSON(rep))
	}
}

func TestFaultsOfTheSystemAtTheCapAreNotThePackages(t *testing.T) {
	s := newStand(t, quick)
	s.imports("echo", packageOf("Echo", 0, tree{"input_validators/v.cpp": ""}))
	w := s.preparer("w", 1)
	for range quick.AttemptCap {
		w.step("checker", faultReport(gavelapi.BlameHost))
	}
	w.step("validator", found("ok", ""))
	rep := s.preparation("echo", 0)
	if rep.State != "failed" || rep.Fault == nil || rep.Fault.Message != "broken" || rep.Rows[0].Detail != "host: broken" {
		t.Errorf("%s", asJSON(rep))
	}
}

func TestAPreparationWhoseJobIsGoneIsEndedByTheNextLeader(t *testing.T) {
	s := newStand(t, quick)
	s.imports("echo", packageOf("Echo", 0, nil))
	s.stop()
	next := startOn(t, s.url, quick)
	next.exec("delete from jobs")
	until(t, "the preparation fails", func() bool { return next.problem("echo").Preparation.State == "failed" })
	if rep := next.preparation("echo", 0); rep.Fault == nil || !strings.Contains(rep.Fault.Message, "its job with it") {
		t.Errorf("%s", asJSON(rep))
	}
}

func TestAPreparationSurvivesANewLeader(t *testing.T) {
	s := newStand(t, quick)
	s.imports("echo", packageOf("Echo", 1, nil))
	w := s.preparer("w", 1)
	w.step("checker", found("ok", ""))
	w.step("validator", found("ok", ""))
	s.stop()
	next := startOn(t, s.url, quick)
	next.awaitReady()
	w.s = next
	w.step("submission", got("AC", ""))
	if n := next.problem("echo"); n.Version != 1 {
		t.Errorf("%s", asJSON(n))
	}
}

func TestASubmissionWaitsForOneStepAtMost(t *testing.T) {
	s := newStand(t, quick)
	s.imports("echo", packageOf("Echo", 20, nil))
	w := s.preparer("w", 1)
	w.step("checker", found("ok", ""))
	w.step("validator", found("ok", ""))
	for judged := 0; judged < 20; {
		running := w.hold()  // something is in the only slot …
		sub := s.submit("c") // … when a submission arrives
		report := got("AC", "")
		if judged++; running.Prepare == nil {
			t.Fatalf("not a step: %s", asJSON(running))
		}
		w.report(running.LeaseToken, report)
		l := w.hold()
		if l.SubmissionID != sub.ID {
			t.Fatalf("after step %d a submission waits for %s", judged, asJSON(l))
		}
		// Another arrives while it is judged, and may wait for one step more.
		another := s.submit("c")
		w.report(l.LeaseToken, verdictReport("AC"))
		for range 2 {
			l = w.hold()
			if l.SubmissionID == another.ID {
				w.report(l.LeaseToken, verdictReport("AC"))
				break
			}
			w.report(l.LeaseToken, report)
			judged++
		}
		if got := s.read(another.ID); got.State != gavelapi.StateDone {
			t.Fatalf("after step %d a submission waits for more than one step: %s", judged, asJSON(got))
		}
	}
	if n := s.problem("echo"); n.Version != 1 {
		t.Errorf("%s", asJSON(n.Preparation))
	}
}

func TestAWorkerThatDoesNotKnowPrepareGetsNone(t *testing.T) {
	s := newStand(t, quick)
	s.imports("echo", packageOf("Echo", 0, nil))
	old := s.runner("old", 1, "c", "cpp17", "cpp20")
	if leases, err := old.tryClaim(0); err != nil || len(leases) != 0 {
		t.Fatalf("%s %v", asJSON(leases), err)
	}
	if rep := s.preparation("echo", 0); rep.Waiting == "" {
		t.Errorf("%s", asJSON(rep))
	}
	s.preparer("new", 1).step("checker", found("ok", ""))
}

func TestReportsOfTheWrongKindAreFaultsOfTheirWorker(t *testing.T) {
	s := newStand(t, quick)
	sub := s.submit("c")
	w := s.preparer("w", 1)
	for _, r := range []gavelapi.Report{found("ok", ""), got("AC", "")} {
		l := w.hold()
		if got := w.report(l.LeaseToken, r); l.SubmissionID != sub.ID || got.Outcome != gavelapi.OutcomeRecorded || got.Reason == "" {
			t.Errorf("%+v", got)
		}
	}
	w.report(w.hold().LeaseToken, verdictReport("AC"))
	s.imports("echo", packageOf("Echo", 0, nil))
	bad := found("ok", "")
	bad.Prepare.Findings[0].Outcome = "splendid"
	for _, r := range []gavelapi.Report{verdictReport("AC"), runReport("x"), bad} {
		l := w.hold()
		if got := w.report(l.LeaseToken, r); l.Prepare.Step != "checker" || got.Outcome != gavelapi.OutcomeRecorded || got.Reason == "" {
			t.Errorf("%+v", got)
		}
	}
	if rep := s.preparation("echo", 0); rep.Rows[0].Outcome != "fault" {
		t.Errorf("%s", asJSON(rep))
	}
}

func TestAReportIsBounded(t *testing.T) {
	s := newStand(t, quick)
	s.imports("echo", packageOf("Echo", 0, nil))
	w := s.preparer("w", 1)
	r := gavelapi.Report{Prepare: &gavelapi.PrepareReport{}}
	for i := range 5000 {
		f := gavelapi.Finding{Step: "inputs", What: fmt.Sprint(i), Outcome: "ok", Detail: strings.Repeat("\xff\x00", 3000)}
		if i == 4999 {
			f.Outcome = "failed"
		}
		r.Prepare.Findings = append(r.Prepare.Findings, f)
	}
	w.step("checker", r)
	w.step("validator", found("ok", ""))
	if rep := s.preparation("echo", 0); rep.State != "failed" || len(rep.Rows) > 100 || len(asJSON(rep)) > 100<<10 {
		t.Errorf("state %s, %d rows, %d bytes", rep.State, len(rep.Rows), len(asJSON(rep)))
	}
	for i := range 25 {
		if _, err := s.tryImport(httpapi.Import{Name: "many"}, packageOf(fmt.Sprint("Echo ", i), 0, nil)); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.number("select count(*) from preparations where problem = 'many'"); n > 20 {
		t.Errorf("the reports of %d imports are kept", n)
	}
}

func TestAPackageThatCannotBeVerifiedIsRefused(t *testing.T) {
	s := newStand(t, quick)
	_, err := s.tryImport(httpapi.Import{Name: "many"}, packageOf("Many", 501, nil))
	if apperr.CodeOf(err) != apperr.Unsupported || !strings.Contains(fmt.Sprint(err), "501 submissions") {
		t.Errorf("%v", err)
	}
	info, err := s.tryImport(httpapi.Import{Name: "many", Verify: gavelapi.VerifyData}, packageOf("Many", 501, nil))
	if err != nil || info.Preparation.Steps != 2 {
		t.Errorf("%s %v", asJSON(info), err)
	}
}
