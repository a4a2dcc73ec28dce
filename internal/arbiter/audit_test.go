package arbiter_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/arbiter"
)

// Whatever an operator does is in the audit trail: who, when, to what and why.
func TestEveryDeedHasItsReasonInTheAuditTrail(t *testing.T) {
	t.Parallel()
	s := newStandWith(t, quick, func(c *arbiter.Config) { c.WebhookPrivate = true })
	ctx := t.Context()
	e := newEndpoint(t)
	s.tell(e, "judge_down")
	w := s.worker("w", 2, "c")
	_, leave := w.stays()
	var deeds []string // action, subject
	do := func(action, subject string, deed func(why string) error) {
		t.Helper()
		if err := deed("because of " + action); err != nil {
			t.Fatalf("%s: %v", action, err)
		}
		deeds = append(deeds, action+" "+subject)
	}
	change := func(action string) func(string) error {
		return func(why string) error {
			got, err := s.ChangeWorker(ctx, s.admin, "w", gavelapi.WorkerChange{Action: action, Note: why})
			if away := action != "resume"; err == nil && (away != (got.Away != "") || away && !strings.HasSuffix(got.Away, why)) {
				t.Errorf("%s is answered with %q, state %s", action, got.Away, got.State)
			}
			return err
		}
	}
	do("worker.drain", "w", change("drain"))
	do("worker.resume", "w", change("resume"))
	do("worker.pause", "w", change("pause"))
	leave()
	sub, other := s.submit("c"), s.submit("c")
	do("queue.bump", "1", func(why string) error { _, err := s.BumpSubmission(ctx, s.admin, sub.ID, why); return err })
	do("submission.cancel", "2", func(why string) error { _, err := s.CancelSubmission(ctx, s.admin, other.ID, why); return err })
	do("worker.label", "w", func(why string) error {
		_, err := s.LabelWorker(ctx, s.admin, "w", gavelapi.WorkerLabels{Tags: []string{"x"}, Reason: why})
		return err
	})
	do("worker.hours", "w", func(why string) error {
		_, err := s.SetWorkerHours(ctx, s.admin, "w", gavelapi.NewHours{Reason: why})
		return err
	})
	do("worker.invite", "pool default", func(why string) error {
		_, err := s.Invite(ctx, s.admin, gavelapi.NewInvitation{Reason: why})
		return err
	})
	do("queue.pause", "problem p", func(why string) error {
		err := s.SetBrake(ctx, s.admin, gavelapi.Brake{Kind: "problem", Name: "p", Reason: why})
		if got, _ := s.Explain(ctx, sub.ID); err == nil && got.Cause != "held" {
			t.Errorf("held, it is explained by %s", asJSON(got))
		}
		return err
	})
	do("queue.resume", "problem p", func(why string) error {
		err := s.ReleaseBrake(ctx, s.admin, "problem", "p", why)
		if got, _ := s.Explain(ctx, sub.ID); err == nil && got.Cause == "held" {
			t.Errorf("no longer held, it is explained by %s", asJSON(got))
		}
		return err
	})
	rejudge := func(id int64) func(string) error {
		return func(why string) error {
			r, err := s.StartRejudge(ctx, s.admin, gavelapi.NewRejudge{Filter: gavelapi.RejudgeFilter{Submissions: []int64{id}}, Reason: why, Apply: "later"})
			if err == nil && r.Total != 1 {
				t.Errorf("%s", asJSON(r))
			}
			return err
		}
	}
	do("rejudge.start", "rejudge 1", rejudge(sub.ID))
	do("rejudge.cancel", "rejudge 1", func(why string) error {
		r, err := s.CancelRejudge(ctx, s.admin, 1, why)
		if r.Done != 0 || r.Total != 1 {
			t.Errorf("cancelled before anything was judged: %d of %d", r.Done, r.Total)
		}
		return err
	})
	do("worker.resume", "w", change("resume"))
	ready := func(id int64) {
		w.report(w.hold().LeaseToken, verdictReport("AC"))
		s.awaitRejudge(id, gavelapi.RejudgeReady)
	}
	do("rejudge.start", "rejudge 2", rejudge(sub.ID))
	ready(2)
	do("rejudge.apply", "rejudge 2", func(why string) error {
		if _, err := s.ApplyRejudge(ctx, s.admin, 2, []int64{sub.ID, other.ID}, "a slip"); apperr.CodeOf(err) != apperr.Invalid || !strings.Contains(err.Error(), "not in rejudge 2: submission 2") {
			t.Errorf("of a submission that is not in it: %v", err)
		}
		_, err := s.ApplyRejudge(ctx, s.admin, 2, []int64{sub.ID}, why)
		return err
	})
	do("rejudge.start", "rejudge 3", rejudge(sub.ID))
	ready(3)
	do("rejudge.discard", "rejudge 3", func(why string) error { _, err := s.DiscardRejudge(ctx, s.admin, 3, why); return err })
	var d gavelapi.Delivery
	do("webhook.test", "ops", func(why string) (err error) { d, err = s.TestWebhook(ctx, s.admin, "ops", why); return err })
	e.next()
	until(t, "it is delivered", func() bool { return s.deliveries()[0].State == "delivered" })
	do("webhook.redeliver", "delivery 1", func(why string) error { return s.Redeliver(ctx, s.admin, d.ID, why) })
	do("webhook.remove", "ops", func(why string) error { return s.RemoveWebhook(ctx, s.admin, "ops", why) })
	do("worker.remove", "w", func(why string) error { return s.RemoveWorker(ctx, s.admin, "w", why) })

	list, err := s.Audit(ctx, "", "", 100)
	if err != nil {
		t.Fatal(err)
	}
	var written []string
	for _, a := range slices.Backward(list.Entries) {
		if a.Reason == "" && (a.Action == "webhook.add" || a.Action == "worker.invite") {
			continue // of the helpers, which give no reason
		}
		written = append(written, a.Action+" "+a.Subject)
		if a.Reason != "because of "+a.Action || a.Token != "test" || a.At.IsZero() {
			t.Errorf("written down: %s", asJSON(a))
		}
	}
	if !slices.Equal(written, deeds) {
		t.Errorf("done:\n%s\nwritten:\n%s", strings.Join(deeds, "\n"), strings.Join(written, "\n"))
	}

	for id, want := range map[int64]string{sub.ID: "put in front by test: because of queue.bump", other.ID: "cancelled by test: because of submission.cancel"} {
		got, err := s.Explain(ctx, id)
		if err != nil || !slices.ContainsFunc(got.History, func(h gavelapi.ExplanationStep) bool { return h.Text == want }) {
			t.Errorf("submission %d is explained by %s, error %v; want %q", id, asJSON(got), err, want)
		}
	}
}

func TestARejudgeOfNothingThatExistsIsRefused(t *testing.T) {
	t.Parallel()
	s := newStand(t, quick)
	sub := s.submit("c")
	for name, c := range map[string]struct {
		f    gavelapi.RejudgeFilter
		want string
	}{
		"none exists":       {gavelapi.RejudgeFilter{Submissions: []int64{98, 99, 98}}, "there is no submission 98, 99"},
		"the rest excludes": {gavelapi.RejudgeFilter{Submissions: []int64{sub.ID, 99}, User: "nobody"}, "not what the filter selects"},
	} {
		_, err := s.StartRejudge(t.Context(), s.admin, gavelapi.NewRejudge{Filter: c.f, Reason: "x"})
		if apperr.CodeOf(err) != apperr.NotFound || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if n := s.number("select count(*) from rejudges"); n != 0 {
		t.Errorf("%d rejudges were made", n)
	}
}
