package transcript

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/gavel-oj/gavel/internal/sim/history"
)

const suffix = ".calls"

// asked is a call with its answer, if one is known.
type asked struct {
	line

	ended int64
}

// Histories reads what was written below dir up to a time, and returns the calls
// about the jobs of submissions. The time must be taken before: what is written
// down during the reading would be there in part. A call that is on at that time
// is one without an answer.
func Histories(dir string, until int64) ([]history.Op, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil {
		return nil, err
	}
	var all []*asked
	for _, name := range files {
		calls, err := read(name, until)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		all = append(all, calls...)
	}
	slices.SortFunc(all, func(a, b *asked) int { return cmp.Compare(a.AtNS, b.AtNS) })
	return operations(all), nil
}

func read(name string, until int64) ([]*asked, error) {
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	byNumber := map[int64]*asked{}
	var calls []*asked
	for l := range bytes.Lines(raw) {
		if l[len(l)-1] != '\n' {
			break // the process was killed over its last line
		}
		var got line
		if err := json.Unmarshal(l, &got); err != nil {
			return nil, err
		}
		if got.AtNS > until {
			continue
		}
		if got.Answer == nil {
			call := &asked{line: got}
			byNumber[got.N], calls = call, append(calls, call)
		} else if call := byNumber[got.N]; call != nil {
			call.Answer, call.ended = got.Answer, got.AtNS
		}
	}
	return calls, nil
}

// lease is one that somebody was told of.
type lease struct {
	who, session string
	job          int64
}

// operations makes calls about jobs out of calls in the order of their time.
func operations(all []*asked) []history.Op {
	var ops []history.Op
	clients := map[string]int{}
	add := func(a *asked, o history.Op) {
		if _, known := clients[a.Who]; !known {
			clients[a.Who] = len(clients)
		}
		o.Client, o.Who = clients[a.Who], a.Who
		if o.Answer == "" {
			o.Answer = history.Unknown
		}
		ops = append(ops, At(o, a.AtNS, a.ended))
	}

	// A claim that is repeated may have been granted the first time.
	first := map[string]*asked{}
	leases := map[string]lease{}
	for _, a := range all {
		if a.Call != claim {
			continue
		}
		if first[a.Request] == nil {
			first[a.Request] = a
		}
		if a.Answer == nil {
			continue
		}
		for _, g := range a.Answer.Leases {
			if g.Submission == 0 {
				continue // a probe or a run
			}
			since := *a
			since.AtNS = first[a.Request].AtNS
			add(&since, history.Op{Job: g.Job, Kind: history.Grant, Token: g.Token, Gen: g.Gen, Attempt: g.Attempt, Answer: history.OK})
			leases[g.Token] = lease{who: a.Who, session: a.Session, job: g.Job}
		}
	}
	for _, a := range all {
		o := history.Op{Job: a.Job, Kind: history.Kind(a.Call), Token: a.Token, Verdict: a.Verdict}
		if a.Answer != nil {
			o.Answer, o.Reason = a.Answer.What, a.Answer.Reason
			if a.Answer.Fault {
				o.Kind = history.Fault
			}
		}
		if a.Token != "" {
			o.Job = leases[a.Token].job
		}
		if o.Job != 0 {
			add(a, o)
		}
	}
	for _, a := range successions(all) {
		for token, l := range leases {
			if l.who == a.Who && l.session != a.Session && a.follows[l.session] {
				add(a.asked, history.Op{Job: l.job, Kind: history.Succeed, Token: token})
			}
		}
	}
	return ops
}

// succession is the first claim of a session that is not a worker's first one.
type succession struct {
	*asked

	follows map[string]bool // sessions
}

func successions(all []*asked) []succession {
	var out []succession
	sessions := map[string]map[string]bool{} // of each worker
	for _, a := range all {
		if a.Call != claim || sessions[a.Who][a.Session] {
			continue
		}
		if before := sessions[a.Who]; len(before) > 0 {
			next := succession{asked: &asked{line: a.line}, follows: map[string]bool{}}
			for s := range before {
				next.follows[s] = true
			}
			out = append(out, next)
		} else {
			sessions[a.Who] = map[string]bool{}
		}
		sessions[a.Who][a.Session] = true
	}
	return out
}

// At is a call between two times of Now. Histories count microseconds, which
// can be read; calls between which there is less count as having been on at once.
func At(o history.Op, began, ended int64) history.Op { return o.During(began/1000, ended/1000) }
