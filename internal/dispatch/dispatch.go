// Package dispatch decides who gets what next. It is pure: jobs and waiting
// workers in, grants and reasons out; no clock, no I/O, no locks. The arbiter's
// loop carries the decisions out, and the answer to "why does this wait?"
// comes from the same rules (Queue.Explain).
//
// Today's rules: live submissions before rejudges, and the oldest job first
// within each; a job goes to a worker that offers its
// language; a worker that has failed a job does not get it again while another
// online worker could take it; among waiting workers, the one that has waited
// longest. Lanes, pools and fairness between submitters build on this shape.
package dispatch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Job is a waiting job as far as the rules look at it.
type Job struct {
	ID       int64 // grows with age: a smaller one is older
	Gen      int64 // generation to expect when granting
	Language string
	// Rank orders kinds of work: everything of a lower rank goes first.
	Rank int
	// FailedBy lists workers that took this job and failed or lost it.
	FailedBy []int64
}

// Ranks of work.
const (
	RankLive    = 0 // a person waits for the verdict
	RankRejudge = 1 // somebody has a verdict already
)

// before is the order in which two jobs go to a worker that may take both.
func (j *Job) before(o *Job) bool {
	if j.Rank != o.Rank {
		return j.Rank < o.Rank
	}
	return j.ID < o.ID
}

// Worker is an online worker.
type Worker struct {
	ID        int64
	Name      string
	Languages []string
}

func (w *Worker) offers(language string) bool { return slices.Contains(w.Languages, language) }

// Waiter is a claim that waits for work, in order of arrival.
type Waiter struct {
	Worker Worker
	Free   int // leases it can take
}

// Grant gives one job to one waiter.
type Grant struct {
	Job    Job
	Waiter int // index into the waiters given to Match
}

// Queue holds the waiting jobs. The zero value is ready to use.
type Queue struct {
	lanes map[key]*lane
	where map[int64]key // job id → lane, to find a job
}

// key tells lanes apart: jobs that differ in nothing that decides who may take
// them but FailedBy.
type key struct {
	rank     int
	language string
}

// lane holds the jobs of one key in order of age.
type lane struct{ jobs []Job }

func (l *lane) find(id int64) (int, bool) {
	return slices.BinarySearchFunc(l.jobs, id, func(j Job, id int64) int { return cmp.Compare(j.ID, id) })
}

// Add puts a job into the queue; a job that is there already is replaced when
// the new one has a later generation.
func (q *Queue) Add(j Job) {
	if q.lanes == nil {
		q.lanes, q.where = map[key]*lane{}, map[int64]key{}
	}
	k := key{j.Rank, j.Language}
	l := q.lanes[k]
	if l == nil {
		l = &lane{}
		q.lanes[k] = l
	}
	if n := len(l.jobs); n == 0 || l.jobs[n-1].ID < j.ID { // the common case: a new job is the youngest
		l.jobs = append(l.jobs, j)
	} else if i, found := l.find(j.ID); !found {
		l.jobs = slices.Insert(l.jobs, i, j)
	} else if l.jobs[i].Gen < j.Gen {
		l.jobs[i] = j
	}
	q.where[j.ID] = k
}

// Remove takes a job out; it says whether the job was there.
func (q *Queue) Remove(id int64) bool {
	k, ok := q.where[id]
	if !ok {
		return false
	}
	delete(q.where, id)
	l := q.lanes[k]
	switch i, found := l.find(id); {
	case found && i == 0: // the common case: the oldest; moving no others
		l.jobs[0] = Job{}
		l.jobs = l.jobs[1:]
	case found:
		l.jobs = slices.Delete(l.jobs, i, i+1)
	}
	if len(l.jobs) == 0 {
		delete(q.lanes, k)
	}
	return true
}

// Len is the number of waiting jobs.
func (q *Queue) Len() int { return len(q.where) }

// Has says whether a job waits.
func (q *Queue) Has(id int64) bool {
	_, ok := q.where[id]
	return ok
}

// Match takes jobs out of the queue and gives them to waiters: at most limit
// grants, at most Free for each waiter, round by round so that one waiter with
// many slots does not empty the queue while another has none. online lists
// every online worker, waiting or not; it decides whether a job is kept for
// somebody other than a worker that has failed it.
func (q *Queue) Match(waiters []Waiter, online []Worker, limit int) []Grant {
	var grants []Grant
	free := make([]int, len(waiters))
	for i, w := range waiters {
		free[i] = w.Free
	}
	for progress := true; progress && len(grants) < limit; {
		progress = false
		for i := range waiters {
			if free[i] == 0 || len(grants) >= limit {
				continue
			}
			job, ok := q.takeFor(&waiters[i].Worker, online)
			if !ok {
				free[i] = 0 // what it cannot take now, it cannot take later in this call
				continue
			}
			free[i]--
			grants = append(grants, Grant{Job: job, Waiter: i})
			progress = true
		}
	}
	return grants
}

// takeFor removes and returns the first job that w may take.
func (q *Queue) takeFor(w *Worker, online []Worker) (Job, bool) {
	var best *Job
	for rank := RankLive; rank <= RankRejudge && best == nil; rank++ {
		for _, language := range w.Languages {
			l := q.lanes[key{rank, language}]
			if l == nil {
				continue
			}
			for i := range l.jobs {
				if best != nil && best.before(&l.jobs[i]) {
					break
				}
				if mayTake(&l.jobs[i], w, online) {
					best = &l.jobs[i]
					break
				}
			}
		}
	}
	if best == nil {
		return Job{}, false
	}
	job := *best
	q.Remove(job.ID)
	return job, true
}

// mayTake says whether w may take j, given who else is online.
func mayTake(j *Job, w *Worker, online []Worker) bool {
	if !w.offers(j.Language) {
		return false
	}
	if !slices.Contains(j.FailedBy, w.ID) {
		return true
	}
	// w has failed it: only when nobody online is left who has not.
	return !slices.ContainsFunc(online, func(o Worker) bool {
		return o.offers(j.Language) && !slices.Contains(j.FailedBy, o.ID)
	})
}

// Explain says in words why a job waits, given who is online. ok is false when
// the job is not in the queue.
func (q *Queue) Explain(id int64, online []Worker) (reason string, ok bool) {
	k, ok := q.where[id]
	if !ok {
		return "", false
	}
	if len(online) == 0 {
		return "no worker is online", true
	}
	able := 0
	for i := range online {
		if online[i].offers(k.language) {
			able++
		}
	}
	if able == 0 {
		return fmt.Sprintf("no capable worker: none of the %d online offers %s", len(online), k.language), true
	}
	position := 1
	for other, l := range q.lanes {
		if other.language != k.language && !sharesWorker(other.language, k.language, online) {
			continue
		}
		switch {
		case other.rank < k.rank:
			position += len(l.jobs)
		case other.rank == k.rank:
			older, _ := l.find(id) // the number of older jobs, whether or not it is among them
			position += older
		}
	}
	return fmt.Sprintf("position %d in the queue; %d able workers are online", position, able), true
}

// sharesWorker says whether jobs of two languages compete for some worker.
func sharesWorker(a, b string, online []Worker) bool {
	return slices.ContainsFunc(online, func(w Worker) bool { return w.offers(a) && w.offers(b) })
}

// Waiting counts the waiting jobs by language, in alphabetical order.
func (q *Queue) Waiting() []LanguageCount {
	jobs := map[string]int{}
	for k, l := range q.lanes {
		jobs[k.language] += len(l.jobs)
	}
	counts := make([]LanguageCount, 0, len(jobs))
	for _, language := range slices.Sorted(maps.Keys(jobs)) {
		counts = append(counts, LanguageCount{language, jobs[language]})
	}
	return counts
}

// LanguageCount is a number of jobs of one language.
type LanguageCount struct {
	Language string
	Jobs     int
}
