package drill

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gavel-oj/gavel/internal/timeline"
)

// act is one way of a story, being acted out. What differs between the ways is
// in the functions that its set-up fills in.
type act struct {
	*stand
	story Story
	scale compression
	slack time.Duration
	way   timeline.Way

	began             time.Time // what goes wrong goes wrong here
	home, server      *process
	homeLine, ownLine *relay // of home, and of the server
	claimText         string // in the request of home in which it falls asleep
	handIn            func() // one submission
	breakIt, mendIt   func() // of the 17th of September
	broken            string // what is the matter then
	collect           func() []timeline.Submission
	signs             map[string]func() (what string, rang bool) // of alarms
	alive             func() time.Time                           // when the server last showed life
	mu                sync.Mutex                                 // over alarms, while they are watched
	alarms            []timeline.Alarm
}

// t gives the act its stand.
func (a *act) t(t *T) *act {
	a.stand = newStand(t)
	a.signs = map[string]func() (string, bool){}
	return a
}

// sabotaged says whether this way is to be acted out in its counter-test.
func (a *act) sabotaged(way string) bool { return a.Sabotage && a.way.Name == way }

func (a *act) offset(at time.Time) timeline.Offset {
	return timeline.Offset(float64(at.Sub(a.began)) * float64(a.scale))
}

func (a *act) event(at time.Time, format string, args ...any) {
	a.way.Events = append(a.way.Events, timeline.Event{At: a.offset(at), What: fmt.Sprintf(format, args...)})
}

// judgedAll says whether n submissions were judged, by the database's word.
func (a *act) judgedAll(n int) bool {
	done := 0
	for _, s := range a.collect() {
		if s.Judged {
			done++
		}
	}
	return done == n
}

// play acts the story out.
func (a *act) play() {
	switch a.way.Name {
	case timeline.Edge:
		a.setUpEdge()
	case timeline.Arbiter:
		a.setUpArbiter()
	default:
		a.setUpOld()
	}
	a.began = a.Clock.Now() // until it is known better
	before := 2
	for n := range before { // all is well
		a.handIn()
		a.until(2*time.Minute, "a submission is judged before anything happens", func() bool { return a.judgedAll(n + 1) })
	}
	a.did("%s: two were judged; now: %s", a.way.Name, a.story.What)
	a.story.begin(a)
	a.ownLine.watch(a.scale.of(noteFrom)) // what came before does not count
	quit := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { a.watchAlarms(quit) })
	stop := sync.OnceFunc(func() { close(quit); watching.Wait() })
	defer stop() // also when the script ends early
	for _, at := range a.story.submits {
		a.waitFor(at)
		a.handIn()
	}
	all := before + len(a.story.submits)
	expected := a.story.expect[a.way.Name].Rings
	repaired := false
	for a.ctx.Err() == nil {
		now := time.Duration(a.offset(a.Clock.Now()))
		if now >= a.story.most || now >= a.story.least && a.judgedAll(all) && a.settled(expected) {
			break
		}
		if a.story.repair > 0 && now >= a.story.repair && !repaired {
			repaired = true
			a.mendIt()
			a.event(a.Clock.Now(), "somebody has noticed, and mends it")
		}
		a.wait(20 * time.Millisecond)
	}
	stop()
	a.finish()
}

// settled says whether the alarm that is expected has rung, and those that are
// cleared by themselves are.
func (a *act) settled(expected string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	rang := expected == ""
	for _, alarm := range a.alarms {
		rang = rang || alarm.Name == expected
		if alarm.Name == timeline.JudgeDown && alarm.Cleared == 0 {
			return false
		}
	}
	return rang
}

// waitFor waits for a time of the story.
func (a *act) waitFor(at time.Duration) {
	a.wait(a.began.Add(a.scale.of(at)).Sub(a.Clock.Now()))
}

// finish writes down what was seen.
func (a *act) finish() {
	end := a.Clock.Now()
	a.way.Ended = a.offset(end)
	a.way.Submissions = a.collect()
	a.way.Alarms = a.alarms
	longest, slow := a.ownLine.waits()
	if a.way.Name == timeline.Arbiter {
		a.way.ClaimHeldUp = a.way.HeldByMatching("server") // its claims wait for work anyway
	} else {
		a.way.ClaimHeldUp = timeline.Offset(float64(longest) * float64(a.scale))
		for _, w := range slow {
			if 2*w.to.Sub(w.from) < longest {
				continue // beside the longest they say nothing
			}
			a.way.Spans = append(a.way.Spans, timeline.Span{
				Who: "server", Kind: timeline.HeldUp, From: a.offset(w.from), To: a.offset(w.to), What: "held up in its claim: no answer from the database",
			})
		}
	}
	if at := a.homeLine.hungUpAt(); !at.IsZero() {
		a.event(at, "the ssh server hangs up on home: two of its questions were not answered")
	}
	if n := a.countIn(a.home.log, "permission denied for table"); n > 0 {
		a.event(end, "home's claims have failed %d times", n)
	}
	if a.broken != "" {
		to := a.way.Ended
		for _, e := range a.way.Events {
			if strings.HasPrefix(e.What, "somebody") {
				to = e.At
			}
		}
		a.way.Spans = append(a.way.Spans, timeline.Span{Who: "home", Kind: timeline.Failing, To: to, What: a.broken})
	} else if a.home.state() == "T" {
		a.way.Spans = append(a.way.Spans, timeline.Span{Who: "home", Kind: timeline.Asleep, To: a.way.Ended, What: "falls asleep (SIGSTOP) in the middle of a claim"})
	}
}

// fallAsleep freezes home when its next claim is under way.
func (a *act) fallAsleep() {
	if a.sabotaged(timeline.Old) {
		a.began = a.Clock.Now()
		return
	}
	asleep := make(chan time.Time, 1)
	a.homeLine.onRequest(a.claimText, func() {
		a.home.signal(syscall.SIGSTOP)
		a.within(5*time.Second, func() bool { return a.home.gone() || a.home.state() == "T" })
		asleep <- a.Clock.Now()
	})
	select {
	case a.began = <-asleep:
	case <-a.Clock.After(time.Minute):
		a.Fatalf("home made no claim for a minute")
	case <-a.ctx.Done():
		a.Fatalf("%v", a.ctx.Err())
	}
	if a.sabotaged(timeline.Edge) {
		a.keepOldLock()
	}
}

// breakHome is the 17th of September.
func (a *act) breakHome() {
	a.began = a.Clock.Now()
	if a.sabotaged(timeline.Old) {
		return
	}
	a.breakIt()
}

// watchAlarms looks at what rings.
func (a *act) watchAlarms(quit chan struct{}) {
	next := watchdogEvery
	for {
		select {
		case <-quit:
			return
		case <-a.ctx.Done():
			return
		case <-a.Clock.After(10 * time.Millisecond):
		}
		now := a.Clock.Now()
		for name, rings := range a.signs {
			if what, yes := rings(); yes && !a.rang(name) {
				a.ring(timeline.Alarm{Name: name, What: what, Rang: a.offset(now)})
			}
		}
		if time.Duration(a.offset(now)) < next {
			continue
		}
		next = time.Duration(a.offset(now)).Truncate(watchdogEvery) + watchdogEvery
		seen := a.alive()
		dead := now.Sub(seen) > a.scale.of(watchdogAfter)+a.slack
		a.mu.Lock()
		i := len(a.alarms) - 1
		stands := i >= 0 && a.alarms[i].Name == timeline.JudgeDown && a.alarms[i].Cleared == 0
		if stands && !dead {
			a.alarms[i].Cleared = a.offset(now)
		}
		a.mu.Unlock()
		if dead && !stands {
			a.ring(timeline.Alarm{Name: timeline.JudgeDown, What: "the server's worker has shown no life for two minutes", Rang: a.offset(now)})
		}
	}
}

func (a *act) rang(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, alarm := range a.alarms {
		if alarm.Name == name {
			return true
		}
	}
	return false
}

func (a *act) ring(alarm timeline.Alarm) {
	a.mu.Lock()
	a.alarms = append(a.alarms, alarm)
	a.mu.Unlock()
	a.did("%s: alarm %s", a.way.Name, alarm.Name)
}

// databaseLine is a line to the database and the URL of a login at its end.
func (a *act) databaseLine(login string) (*relay, string) {
	line := a.relay(a.socket())
	line.watch(a.scale.of(noteFrom))
	return line, fmt.Sprintf("postgres://%s@%s/gavel?sslmode=disable", login, line.listener.Addr())
}

// socket is the database's.
func (a *act) socket() string {
	cfg := a.db.Config().ConnConfig
	return fmt.Sprintf("%s/.s.PGSQL.%d", cfg.Host, cfg.Port)
}

// homesLine makes the line of home what it is: slow, and kept by an ssh server.
func (a *act) homesLine(line *relay) {
	line.slow(a.scale.of(homeLine))
	line.hangUpAfter(a.scale.of(sshSilence))
	a.homeLine = line
}

// countIn counts a text in a log.
func (a *act) countIn(log, text string) int {
	raw, err := os.ReadFile(log)
	a.must(err, "read a log")
	return strings.Count(string(raw), text)
}
