package arbiter_test

import (
	"strings"
	"testing"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/httpapi"
)

// talk is a package with an interactor that may use twice what a submission may.
var talk = packageOf("Talk", 1, tree{
	"problem.yaml": "problem_format_version: 2025-09\nname: Talk\nuuid: 7c0ffee0-0000-4000-8000-000000000003\ntype: interactive\n" +
		"limits: {time_limit: 1, memory: 256, validation_memory: 512}\n",
	"output_validator/talk.cpp": "int main() { return 42; }\n",
})

// bothMiB is the memory of talk's programs and its interactor together.
const bothMiB = 256 + 512

func (s *stand) wantJobs(what string, n int) {
	s.t.Helper()
	if got := s.number("select count(*) from jobs where features @> '{interactive}' and memory_bytes = $1", int64(bothMiB)<<20); got != n {
		s.t.Errorf("%s: %d jobs ask for an interactor and the memory of both, want %d", what, got, n)
	}
}

func TestInteractiveWorkGoesOnlyWhereItCanBeDone(t *testing.T) {
	s := newStand(t, quick)
	if _, err := s.tryImport(httpapi.Import{Name: "talk", Verify: gavelapi.VerifyNone, Reason: "test"}, talk); err != nil {
		t.Fatal(err)
	}
	sub := s.submitAs("anna", "talk")
	s.wantJobs("submitted", 1)

	old := s.worker("old", 1, "c")
	old.memory = 4 << 30
	if leases, err := old.tryClaim(0); err != nil || len(leases) != 0 {
		t.Fatalf("a worker without interactors got %s, %v", asJSON(leases), err)
	}
	if got := s.read(sub.ID); !strings.Contains(got.Waiting, "it does not support interactive") {
		t.Errorf("it waits because %q", got.Waiting)
	}
	plain := s.submit("c") // what is not interactive it does
	if l := old.judge("AC"); l.SubmissionID != plain.ID {
		t.Errorf("%s", asJSON(l))
	}

	able := s.worker("able", 2, "c")
	able.features = []string{gavelapi.FeatureInteractive}
	able.memory = bothMiB<<20 - 1
	if leases, err := able.tryClaim(0); err != nil || len(leases) != 0 {
		t.Fatalf("a worker with too little memory for both got %s, %v", asJSON(leases), err)
	}
	// A second one would need the memory of both again: it waits until the first is done.
	able.memory = 2*bothMiB<<20 - 1
	second := s.submitAs("bert", "talk")
	l := able.hold()
	if l.SubmissionID != sub.ID || l.Limits.MemoryBytes != 256<<20 {
		t.Errorf("%s", asJSON(l))
	}
	if got := s.read(second.ID); got.State != gavelapi.StatePending {
		t.Errorf("%s", asJSON(got))
	}
	able.report(l.LeaseToken, verdictReport("AC"))
	if l := able.judge("AC"); l.SubmissionID != second.ID {
		t.Errorf("%s", asJSON(l))
	}
}

// Whichever way a job comes into being, it asks for the same.
func TestEveryJobWithAnInteractorAsksForOne(t *testing.T) {
	s := newStand(t, quick)
	w := s.preparer("w", 1)
	s.imports("talk", talk)
	w.step("checker", found("ok", ""))
	w.step("validator", found("ok", ""))
	s.wantJobs("declared submission", 1)
	if leases, err := w.tryClaim(0); err != nil || len(leases) != 0 {
		t.Fatalf("%s %v", asJSON(leases), err)
	}
	w.features = append(w.features, gavelapi.FeatureInteractive)
	w.step("submission", got("AC", ""))

	var id int64
	if err := s.owner().Pool.QueryRow(t.Context(), "select gavel.submit('talk', 'c', 'int main(){}', 'anna', 'a.c')").Scan(&id); err != nil {
		t.Fatal(err)
	}
	s.wantJobs("submitted by SQL", 1)
	w.judge("AC")
	s.rejudge(gavelapi.RejudgeFilter{Submissions: []int64{id}}, "later")
	s.wantJobs("rejudged", 1)
	if l := w.judge("AC"); l.Kind != "rejudge" || l.SubmissionID != id {
		t.Errorf("%s", asJSON(l))
	}
}
