package arbiter

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/dispatch"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// reasonsAtOnce bounds what one write says and takes back; the rest is for the
// next tick.
const reasonsAtOnce = 500

// reasonKey is whose reason a row of waiting_reasons is.
type reasonKey struct {
	shape    string
	problem  int64
	failedBy string
}

// said is what such a row says.
type said struct {
	cause dispatch.Cause
	text  string
}

// shapeOf is what the SQL function job_shape makes of a row of such a job.
func shapeOf(j *dispatch.Job) string {
	words := func(list []string) string { return cmp.Or(strings.Join(list, ","), "-") }
	tight := "-"
	if j.Needs.Tight {
		tight = "tight"
	}
	return fmt.Sprintf("%s %s %d %s %s %s %d %d %d", j.Lane, cmp.Or(j.Language, "-"), j.Needs.MemoryBytes, tight,
		words(j.Needs.Features), words(j.Needs.Tags), j.Batch, j.Budget, j.Target)
}

func reasonKeyOf(j *dispatch.Job) reasonKey {
	failedBy := make([]string, len(j.FailedBy)) // in order, and each once
	for i, id := range j.FailedBy {
		failedBy[i] = strconv.FormatInt(id, 10)
	}
	return reasonKey{shapeOf(j), j.Problem, strings.Join(failedBy, ",")}
}

// words adds to a reason of the lane whom dispatch does not see. Needs l.mu.
func (l *leadership) words(lane dispatch.Lane, cause dispatch.Cause, text string) string {
	if cause == dispatch.NobodyOnline {
		if gone := l.goneSilent(l.a.clock.Now()); len(gone) > 0 {
			text += fmt.Sprintf("; the last to be heard of was %s, at %s", gone[0].name, instant(gone[0].seenAt))
		}
	}
	if there := l.edge.Load(); there != nil && len(*there) > 0 && (cause == dispatch.NobodyOnline || cause == dispatch.NobodyAble) {
		if lane == dispatch.Prepare {
			return text + fmt.Sprintf("; the %d straight on the database prepare no packages", len(*there))
		}
		text += fmt.Sprintf("; not counting %d straight on the database, who may take it", len(*there))
	}
	return text
}

// writeReasons writes down why what waits does so: one statement for what has
// changed, none when nothing waits. Only the write-down loop calls it.
func (l *leadership) writeReasons(ctx context.Context) error {
	if l.reasons == nil {
		rows, err := l.a.q.StoredReasons(ctx, l.a.db.Pool)
		if err != nil {
			return fmt.Errorf("read the stored reasons: %w", err)
		}
		l.reasons = make(map[reasonKey]said, len(rows))
		for _, r := range rows {
			l.reasons[reasonKey{r.Shape, r.ProblemID, r.FailedBy}] = said{dispatch.Cause(r.Cause), r.Reason}
		}
	}
	now := l.reasonsNow()
	if len(now) == 0 && len(l.reasons) == 0 {
		return nil
	}
	p, next := l.changedReasons(now)
	n, err := l.a.q.WriteReasons(ctx, l.a.db.Pool, p)
	if err != nil {
		l.reasons = nil // whatever came of it is read at the next tick
		return fmt.Errorf("write why %d shapes of work wait: %w", len(p.Shapes), err)
	}
	if n > 0 { // else the term is over
		l.reasons = next
	}
	return nil
}

// reasonsNow is why each shape of work waits.
func (l *leadership) reasonsNow() map[reasonKey]said {
	l.mu.Lock()
	defer l.mu.Unlock()
	reasons := l.board.Reasons(l.a.clock.Now())
	now := make(map[reasonKey]said, len(reasons))
	for i := range reasons {
		now[reasonKeyOf(&reasons[i].Like)] = said{reasons[i].Cause, l.words(reasons[i].Like.Lane, reasons[i].Cause, reasons[i].Text)}
	}
	return now
}

// changedReasons is what to write so that now is stored, and what is stored then.
func (l *leadership) changedReasons(now map[reasonKey]said) (p *storedb.WriteReasonsParams, next map[reasonKey]said) {
	p = &storedb.WriteReasonsParams{Shard: shard, Term: l.term}
	next = make(map[reasonKey]said, len(now))
	for k, was := range l.reasons {
		if _, waits := now[k]; waits || len(p.GoneShapes) == reasonsAtOnce {
			next[k] = was
			continue
		}
		p.GoneShapes, p.GoneProblems, p.GoneFailedBy = append(p.GoneShapes, k.shape), append(p.GoneProblems, k.problem), append(p.GoneFailedBy, k.failedBy)
	}
	for k, s := range now {
		if next[k] == s || len(p.Shapes) == reasonsAtOnce {
			continue
		}
		next[k] = s
		p.Shapes, p.ProblemIds, p.FailedBys = append(p.Shapes, k.shape), append(p.ProblemIds, k.problem), append(p.FailedBys, k.failedBy)
		p.Causes, p.Reasons = append(p.Causes, string(s.cause)), append(p.Reasons, s.text)
	}
	return p, next
}

// storedReason is what the leader wrote down last of a waiting job, for an
// arbiter that does not lead.
func (a *Arbiter) storedReason(ctx context.Context, jobID int64) (*storedb.ReasonOfJobRow, string) {
	r, err := a.q.ReasonOfJob(ctx, a.db.Pool, &storedb.ReasonOfJobParams{Shard: shard, JobID: jobID})
	switch {
	case store.IsNoRows(err):
		return nil, "it is being given to a worker"
	case err != nil:
		a.log.Warn("reading a stored reason failed", "job_id", jobID, "error", err)
		return nil, "why cannot be read at the moment"
	}
	age := int(r.AgeS)
	switch {
	case r.Leaderless && r.Reason == "":
		return r, "no arbiter leads at the moment"
	case r.Leaderless:
		return r, fmt.Sprintf("no arbiter leads at the moment; %d s ago: %s", age, r.Reason)
	case r.Reason == "":
		return r, "the leader has not looked at it yet"
	}
	return r, fmt.Sprintf("%s (as of %d s ago)", r.Reason, age)
}

// liveQueue is what the leader's memory says of what waits. Needs l.mu.
func (l *leadership) liveQueue() []gavelapi.QueueCount {
	now := l.a.clock.Now()
	var list []gavelapi.QueueCount
	for _, c := range l.board.Counts() {
		list = append(list, gavelapi.QueueCount{Lane: c.Lane.String(), Language: c.Language, Jobs: c.Jobs, Reasons: []gavelapi.QueueReason{}})
	}
	for _, r := range l.board.Reasons(now) {
		i := slices.IndexFunc(list, func(c gavelapi.QueueCount) bool {
			return c.Lane == r.Like.Lane.String() && c.Language == r.Like.Language
		})
		list[i].Reasons = append(list[i].Reasons, gavelapi.QueueReason{Cause: string(r.Cause), Reason: l.words(r.Like.Lane, r.Cause, r.Text), Jobs: r.Jobs})
	}
	for i := range list {
		list[i].Reasons = gathered(list[i].Reasons)
		lane, _ := dispatch.ParseLane(list[i].Lane) // as it was named above
		list[i].EstimateMS, list[i].EstimateBasis = l.estimate(l.board.OutlookOfNext(lane, list[i].Language, now))
	}
	return list
}

// gathered puts those with the same words together, the most frequent first.
func gathered(reasons []gavelapi.QueueReason) []gavelapi.QueueReason {
	byText := func(x, y gavelapi.QueueReason) int {
		return cmp.Or(cmp.Compare(x.Cause, y.Cause), cmp.Compare(x.Reason, y.Reason))
	}
	slices.SortFunc(reasons, byText)
	all := reasons[:0]
	for _, r := range reasons {
		if n := len(all); n > 0 && byText(all[n-1], r) == 0 {
			all[n-1].Jobs += r.Jobs
			continue
		}
		all = append(all, r)
	}
	slices.SortStableFunc(all, func(x, y gavelapi.QueueReason) int { return cmp.Compare(y.Jobs, x.Jobs) })
	return all
}

// storedQueue counts what waits in the database, with the reasons that the
// leader wrote down last, and says when it did.
func (a *Arbiter) storedQueue(ctx context.Context, q *gavelapi.Queue) error {
	rows, err := a.q.WaitingGroups(ctx, a.db.Pool)
	if err != nil {
		return unavailable(err, "count what waits")
	}
	for _, r := range rows {
		n := len(q.Waiting)
		if n == 0 || q.Waiting[n-1].Lane != r.Lane || q.Waiting[n-1].Language != r.Language {
			q.Waiting = append(q.Waiting, gavelapi.QueueCount{Lane: r.Lane, Language: r.Language, Reasons: []gavelapi.QueueReason{}})
			n++
		}
		c := &q.Waiting[n-1]
		c.Jobs += int(r.Jobs)
		if r.Reason != "" {
			since := r.Since.UTC()
			c.Reasons = append(c.Reasons, gavelapi.QueueReason{Cause: r.Cause, Reason: r.Reason, Jobs: int(r.Jobs), Since: &since})
		}
	}
	at, err := a.q.LookedAt(ctx, a.db.Pool, shard)
	if store.IsNoRows(err) {
		return nil // no leader has seen anything wait yet
	}
	if err != nil {
		return unavailable(err, "read when the leader looked")
	}
	q.ReasonsAt = utc(&at)
	return nil
}

// instant is a moment in words.
func instant(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 MST") }

// silentShown bounds how many workers that are gone an explanation names.
const silentShown = 10

// goneSilent lists those that were here in this term and are not any more, the
// last to be heard of first. Needs l.mu.
func (l *leadership) goneSilent(now time.Time) []*presence {
	var gone []*presence
	for id, p := range l.presence {
		if s := l.settings[id]; !l.isOnline(id, now) && (s == nil || !s.Disabled) {
			gone = append(gone, p)
		}
	}
	slices.SortFunc(gone, func(x, y *presence) int { return cmp.Or(y.seenAt.Compare(x.seenAt), cmp.Compare(x.name, y.name)) })
	return gone[:min(len(gone), silentShown)]
}

var priorityNames = map[int]string{dispatch.ClassBumped: "bumped", dispatch.ClassContest: "contest", dispatch.ClassPractice: "practice", dispatch.ClassBatch: "batch"}

// explainWaiting adds what is known of a waiting submission: live from the
// leader's memory, else what is stored.
func (a *Arbiter) explainWaiting(ctx context.Context, id int64, e *gavelapi.Explanation) {
	job, err := a.q.OpenJobOfSubmission(ctx, a.db.Pool, id)
	if err != nil {
		return // the summary says what there is to say
	}
	stored, text := a.storedReason(ctx, job)
	l := a.current.Load()
	if l == nil {
		e.Summary = text
		if stored != nil {
			e.Lane, e.Priority, e.Cause = stored.Lane, priorityNames[int(stored.Priority)], stored.Cause
		}
		if e.Cause != "" {
			at := a.clock.Now().Add(-time.Duration(stored.AgeS * float64(time.Second)))
			e.CauseSince, e.StoredAt = utc(&stored.Since), utc(&at)
		}
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := a.clock.Now()
	l.lookRound(now)
	why, ok := l.board.Explain(job, now)
	if !ok {
		return
	}
	e.Lane, e.Position, e.Summary, e.Cause = why.Lane.String(), why.Position, l.words(why.Lane, why.Cause, why.Reason), string(why.Cause)
	if stored != nil && stored.Cause == e.Cause {
		e.CauseSince = utc(&stored.Since)
	}
	e.Priority = priorityNames[why.Class]
	for _, w := range why.Workers {
		e.Workers = append(e.Workers, gavelapi.WorkerReason{Worker: w.Name, Reason: w.Reason})
	}
	for _, p := range l.goneSilent(now) {
		e.Workers = append(e.Workers, gavelapi.WorkerReason{
			Worker: p.name, Reason: fmt.Sprintf("it is offline: last heard of at %s; is its machine awake and gavel-worker running there?", instant(p.seenAt)),
		})
	}
	e.EstimateMS, e.EstimateBasis = l.estimate(l.board.Outlook(job, now))
}

// estimate is about how long a place waits at the pace of late, and what that
// rests on; nothing when it is unknown. Needs l.mu.
func (l *leadership) estimate(o dispatch.Outlook) (ms int64, basis string) {
	d := o.Estimate(l.pace)
	if d == 0 {
		return 0, ""
	}
	return d.Milliseconds(), fmt.Sprintf("place %d for %d slots, each taken for %s by a job of late", o.Place, o.Slots, l.pace.Round(time.Millisecond))
}
