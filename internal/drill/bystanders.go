package drill

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
)

// bystanders are the others: a worker and a trickle of submissions that have
// nothing to do with what is harmed. How long they wait is what is measured.
type bystanders struct {
	s     *stand
	limit time.Duration
	quit  context.CancelFunc
	done  chan struct{}
	waits map[int64]time.Duration // until a submission was accepted
}

const bystanderEvery = 60 * time.Millisecond

// bystander is the name of the worker and of the user.
const bystander = "bystander"

// watch starts bystanders; the longest that one of them may wait is limit. The
// worker and the site call workerURL and api.
func (s *stand) watch(limit time.Duration, workerURL string, api *client.Client) {
	if api == nil {
		api = s.api
	}
	s.worker(bystander, workerURL, 2, offering(bystanderLanguage), sound)
	ctx, cancel := context.WithCancel(s.ctx)
	b := &bystanders{s: s, limit: limit, quit: cancel, done: make(chan struct{}), waits: map[int64]time.Duration{}}
	s.watched = b
	// The first one may be slow: its worker has just started.
	first := b.one(ctx, api)
	s.until(30*time.Second, "the bystander works", func() bool {
		return s.number("select count(*) from judgings where submission_id = $1 and state = 'done'", first) == 1
	})
	delete(b.waits, first)
	s.cleanup(func() { cancel(); <-b.done })
	go func() {
		defer close(b.done)
		for ctx.Err() == nil {
			b.one(ctx, api)
			select {
			case <-s.Clock.After(bystanderEvery):
			case <-ctx.Done():
			}
		}
	}()
}

// one hands a submission in, however long that takes.
func (b *bystanders) one(ctx context.Context, api *client.Client) int64 {
	key, began := rand.Text(), b.s.Clock.Now()
	for ctx.Err() == nil {
		callCtx, cancel := context.WithTimeout(ctx, 2*time.Second)
		sub, err := api.SubmissionCreate(callCtx, gavelapi.NewSubmission{
			Problem: "p", Language: bystanderLanguage, Source: "*: AC after 2ms", User: bystander,
		}, key)
		cancel()
		if err == nil {
			b.s.owe(sub.ID, nil)
			b.waits[sub.ID] = b.s.Clock.Now().Sub(began)
			return sub.ID
		}
		select {
		case <-b.s.Clock.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return 0
}

func (b *bystanders) stop() {
	b.quit()
	<-b.done
}

// measure says how long a bystander waited at most: until it was accepted, and
// from then until its first grant, by the database's clock.
func (b *bystanders) measure() {
	var longest time.Duration
	rows, err := b.s.db.Query(b.s.ctx, `select s.id, extract(epoch from min(a.granted_at) - s.created_at)::float8
  from submissions s join attempts a on a.submission_id = s.id where s.submitter = 'bystander' group by s.id`)
	b.s.must(err, "read the waits")
	defer rows.Close()
	count := 0
	for rows.Next() {
		var id int64
		var seconds float64
		b.s.must(rows.Scan(&id, &seconds), "read a wait")
		if accepted, ok := b.waits[id]; ok {
			count++
			longest = max(longest, accepted+time.Duration(seconds*float64(time.Second)))
		}
	}
	b.s.must(rows.Err(), "read the waits")
	b.s.T.mu.Lock()
	b.s.result.HoldUpMS = float64(longest.Microseconds()) / 1000
	b.s.result.Bystanders = count
	b.s.T.mu.Unlock()
	if longest > b.limit {
		b.s.Errorf("somebody who had nothing to do with it waited %v, at most %v are allowed", longest.Round(time.Millisecond), b.limit)
	}
}
