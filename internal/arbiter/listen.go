package arbiter

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gavel-oj/gavel/internal/store"
)

const (
	// relisten is the pause after the listening session broke. Work is found by
	// the scan meanwhile.
	relisten = time.Second
	// listenPace bounds how often notes lead to a scan, whoever sends them.
	listenPace = 20 * time.Millisecond
)

// listenLoop hears what is done to the tables by others: submissions of a
// site's own transaction, and what workers straight on the database do. It only
// shortens waits; a note that is lost costs the time until the next scan (A21).
// It begins by telling those workers this arbiter's lease settings, and by
// seeing that every live package has its limits, by the rules of today.
func (l *leadership) listenLoop(ctx context.Context) error {
	if err := l.a.saveSettings(ctx); err != nil && ctx.Err() == nil {
		l.a.log.Warn("telling edge workers the lease settings failed", "error", err)
	}
	if err := l.a.backfillLimits(ctx); err != nil && ctx.Err() == nil {
		l.a.log.Warn("computing the limits of packages failed; submitting from SQL may be refused", "error", err)
	}
	complained := false
	for ctx.Err() == nil {
		err := l.listen(ctx)
		if err != nil && ctx.Err() == nil && !complained {
			complained = true // once a leadership: the scan does the work
			l.a.log.Warn("not listening for notes of the database; new work is found by looking", "error", err, "every_ms", scanEvery.Milliseconds())
		}
		select {
		case <-ctx.Done():
		case <-l.a.clock.After(relisten):
		}
	}
	return nil
}

func (l *leadership) listen(ctx context.Context) error {
	conn, err := store.Listen(ctx, l.a.cfg.DatabaseURL, store.WorkChannel, store.DoneChannel)
	if err != nil {
		return err
	}
	defer closeSoon(ctx, conn)
	if err := l.scan(ctx); err != nil { // what came before we listened
		return err
	}
	l.poke()
	heard := l.a.clock.Now()
	for {
		note, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		switch note.Channel {
		case store.DoneChannel:
			l.doneElsewhere(note.Payload)
		case store.WorkChannel:
			if wait := listenPace - l.a.clock.Now().Sub(heard); wait > 0 {
				select {
				case <-ctx.Done():
				case <-l.a.clock.After(wait): // the notes of the meantime are one
				}
			}
			heard = l.a.clock.Now()
			if err := l.scan(ctx); err != nil {
				return err
			}
			l.poke()
		}
	}
}

// doneElsewhere forgets a job that a worker finished by way of the database.
func (l *leadership) doneElsewhere(payload string) {
	var done subject
	var job int64
	payload, done.run = strings.CutPrefix(payload, "run ")
	if _, err := fmt.Sscan(payload, &done.id, &job); err != nil {
		return // not ours: anybody may send a note
	}
	l.mu.Lock()
	l.dropJob(job)
	l.mu.Unlock()
	l.a.watch.changed(done)
	if !done.run {
		l.rejudged.Store(true)
	}
}
