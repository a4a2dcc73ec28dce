package drill

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/internal/drill/transcript"
	"github.com/gavel-oj/gavel/internal/sim/history"
)

// The longest that orders of calls are looked for, about one job and about all.
// Most jobs take less than a millisecond; what takes longer is said to be
// undecided, and fails the scenario.
const (
	searchJob = 10 * time.Second
	searchAll = 90 * time.Second
)

// shownHistories is how many counterexamples are told; the rest is counted.
const shownHistories = 3

// written has what a worker asks and is answered written down.
func (s *stand) written(who string, calls transcript.Calls) transcript.Calls {
	if s.transcripts == "" {
		return calls
	}
	return s.transcript(who).Of(calls)
}

func (s *stand) transcript(who string) *transcript.Log {
	log, err := transcript.Create(s.transcripts, who)
	s.must(err, "transcript of "+who)
	s.cleanup(func() { _ = log.Close() })
	return log
}

// operator is the transcript of what is cancelled and superseded.
func (s *stand) operator() *transcript.Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.operating == nil {
		s.operating = s.transcript("operator")
	}
	return s.operating
}

// proxy is an address at which a gavel-worker finds the first arbiter, and on
// the way to which its calls are written down.
func (s *stand) proxy(who string) string {
	arbiter, err := url.Parse(s.arbiters[0].url)
	s.must(err, "address")
	server := httptest.NewServer(s.transcript(who).Proxy(arbiter))
	s.cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server.URL
}

// jobOf is the open job of a submission, or its last one.
func (s *stand) jobOf(submission int64) int64 {
	return int64(s.number(`select coalesce((select max(id) from jobs where submission_id = $1),
  (select max(job_id) from attempts where submission_id = $1), 0)`, submission))
}

func (s *stand) cancel(submission, job int64) error {
	return s.operator().Cancel(job, false, func() error {
		_, err := s.api.SubmissionCancel(s.ctx, submission, "")
		return err
	})
}

// checkHistories looks whether everything that callers were told about leases,
// and what the tables say now, could have happened one call at a time.
func (s *stand) checkHistories() {
	audits := s.audits()
	ops, err := transcript.Histories(s.transcripts, transcript.Now())
	s.must(err, "read what was asked and answered")
	told := map[int64]bool{}
	for _, o := range ops {
		told[o.Job] = true
	}
	for _, a := range audits {
		if told[a.Job] {
			ops = append(ops, a)
		}
	}
	end := s.Clock.Now().Add(searchAll)
	found := history.Examine(ops, s.number("select attempt_cap from lease_settings"), func() time.Duration {
		return min(searchJob, end.Sub(s.Clock.Now()))
	})
	for i, c := range found.Wrong {
		if i == shownHistories {
			s.Errorf("and the answers about %d more jobs", len(found.Wrong)-i)
			break
		}
		s.Errorf("%v%s", c, s.draw(c))
	}
	if n := len(found.Undecided); n > 0 {
		s.Errorf("whether the answers about %d of %d jobs follow from an order of the calls was not found out within %v each and %v in all: jobs %v",
			n, found.Jobs, searchJob, searchAll, found.Undecided[:min(n, 20)])
	}
	s.T.mu.Lock()
	defer s.T.mu.Unlock()
	s.result.Calls += found.Calls
	s.result.Histories += found.Jobs
	s.result.Unordered += len(found.Wrong)
	s.result.Undecided += len(found.Undecided)
}

// draw writes porcupine's page about a counterexample where it will be found,
// and says where.
func (s *stand) draw(c history.Counterexample) string {
	if s.Sabotage && !s.Keep {
		return "" // the directory goes
	}
	path := s.path(fmt.Sprintf("job-%d.html", c.Job))
	f, err := os.Create(path)
	if err == nil {
		defer f.Close()
		err = c.Draw(f, searchJob)
	}
	if err != nil {
		return fmt.Sprintf("\nit could not be drawn: %v", err)
	}
	return "\ndrawn in " + path
}

// audits are what the tables say about the jobs that are final.
func (s *stand) audits() []history.Op {
	began := transcript.Now()
	rows, err := s.db.Query(s.ctx, `select a.job_id, a.lease_gen, a.lease_token::text, a.outcome, g.state, coalesce(g.verdict, '')
  from attempts a join judgings g on g.id = a.judging_id where g.state <> 'open' order by a.job_id, a.lease_gen`)
	s.must(err, "read the attempts")
	var ops []history.Op
	var job int64
	var a history.Attempt
	var state, verdict string
	_, err = pgx.ForEachRow(rows, []any{&job, &a.Gen, &a.Token, &a.Outcome, &state, &verdict}, func() error {
		if len(ops) == 0 || ops[len(ops)-1].Job != job {
			ops = append(ops, history.Op{Who: "the tables", Job: job, Kind: history.Audit, State: state, Verdict: verdict, Answer: history.OK})
		}
		last := &ops[len(ops)-1]
		last.Attempts = append(last.Attempts, a)
		return nil
	})
	s.must(err, "read the attempts")
	ended := transcript.Now()
	for i, o := range ops {
		ops[i] = transcript.At(o, began, ended)
	}
	return ops
}
