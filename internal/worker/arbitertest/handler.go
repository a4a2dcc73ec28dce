package arbitertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
)

// ServeHTTP implements http.Handler.
func (a *Arbiter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	op := strings.TrimPrefix(r.URL.Path, "/v1/worker/")
	if strings.HasPrefix(op, "packages/") {
		op = "package"
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	a.mu.Lock()
	a.counts[op]++
	call := Call{Op: op, N: a.counts[op], At: a.clk.Now()}
	a.calls = append(a.calls, call)
	fault := None
	if a.Fault != nil {
		fault = a.Fault(call)
	}
	a.notify()
	a.mu.Unlock()

	switch fault {
	case Cut:
		panic(http.ErrAbortHandler)
	case Hang:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case Busy:
		w.Header().Set("Retry-After", "1")
		refuse(w, 503, "no leader", "")
		return
	case Broken:
		refuse(w, 500, "broken", "")
		return
	case Forbidden:
		refuse(w, 403, "worker disabled", "")
		return
	case Outdated:
		refuse(w, 426, "protocol 1 is not spoken here", "")
		return
	case Empty:
		w.WriteHeader(http.StatusNoContent)
		return
	case BadInput:
		refuse(w, 422, "not understood", "")
		return
	}
	rec := httptest.NewRecorder()
	switch {
	case r.Header.Get(gavelapi.ProtocolHeader) != "1":
		refuse(rec, 426, "protocol", "")
	case op == "enrol":
		if in := decode[gavelapi.EnrolRequest](a, body); in.Invitation != Invitation {
			refuse(rec, 403, "the invitation is unknown or used", "")
		} else {
			reply(rec, gavelapi.EnrolResponse{WorkerID: 1, Name: in.Name, Pool: "default", Token: Token})
		}
	case r.Header.Get("Authorization") != "Bearer "+Token:
		refuse(rec, 401, "token", "")
	case op == "claim":
		a.claim(rec, r, body)
	case op == "heartbeat":
		a.heartbeat(rec, body)
	case op == "result":
		a.result(rec, body)
	case op == "release":
		a.release(rec, body)
	case op == "package":
		a.pkg(rec, r, fault)
	default:
		refuse(rec, 404, "no such call", "")
	}
	if fault == Lose {
		panic(http.ErrAbortHandler)
	}
	if fault == Slow {
		select {
		case <-a.clk.After(SlowBy):
		case <-r.Context().Done():
		}
	}
	maps.Copy(w.Header(), rec.Header())
	w.WriteHeader(rec.Code)
	out := rec.Body.Bytes()
	if fault == HalfWay {
		_, _ = w.Write(out[:len(out)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(out)
}

func refuse(w http.ResponseWriter, status int, title, reason string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(gavelapi.Problem{Title: title, Status: status, Reason: reason})
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func decode[T any](a *Arbiter, body []byte) T {
	var v T
	if err := json.Unmarshal(body, &v); err != nil {
		a.violate("%T: %v", v, err)
	}
	return v
}

func (a *Arbiter) claim(w http.ResponseWriter, r *http.Request, body []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	req := decode[gavelapi.ClaimRequest](a, body)
	a.claims = append(a.claims, req)
	a.notify() // of this claim; the one before was of the call
	if _, err := uuid.Parse(req.RequestID); err != nil {
		a.violate("claim: request_id %q", req.RequestID)
	}
	if req.Slots < 1 || req.Slots > req.TotalSlots || len(req.Capabilities.Languages) == 0 || req.WaitMS > 25000 {
		a.violate("claim: %d of %d slots, wait %d ms", req.Slots, req.TotalSlots, req.WaitMS)
	}
	now := a.clk.Now()
	if a.session != "" && a.session != req.Session && a.session != req.PreviousSession && now.Sub(a.seenAt) < a.TTL {
		refuse(w, 409, "another live session of the same worker", "")
		return
	}
	a.session, a.seenAt, a.slots = req.Session, now, req.TotalSlots
	// One id at a time. A claim that was broken off and settled under its id
	// no longer counts, whenever its connection is found closed.
	a.waiting[req.RequestID] = true
	if len(a.waiting) > 1 {
		a.violate("claim: %d at once", len(a.waiting))
	}
	defer delete(a.waiting, req.RequestID)
	until := now.Add(time.Duration(req.WaitMS) * time.Millisecond)
	for {
		a.reap()
		if tokens, known := a.requests[req.RequestID]; known {
			a.answerClaim(w, tokens)
			return
		}
		if a.drain {
			reply(w, gavelapi.ClaimResponse{Leases: []gavelapi.Lease{}, Directives: a.directives()})
			return
		}
		// I4 from this side: never more than the worker says it has.
		if n := min(req.Slots, req.TotalSlots-a.live()); n > 0 {
			if own := a.own(req.Session); req.Slots > req.TotalSlots-own {
				a.violate("claim: asks for %d leases, holds %d of %d", req.Slots, own, req.TotalSlots)
			}
			if tokens := a.grant(n, req.Session); len(tokens) > 0 {
				a.requests[req.RequestID] = tokens
				a.answerClaim(w, tokens)
				return
			}
		}
		left := until.Sub(a.clk.Now())
		if left <= 0 {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		for _, l := range a.leases { // an expiry may bring work
			if d := l.expires.Sub(a.clk.Now()); l.dead == "" && d < left {
				left = max(d, time.Millisecond)
			}
		}
		changed := a.changed
		a.mu.Unlock()
		select {
		case <-changed:
		case <-a.clk.After(left):
		case <-r.Context().Done():
		}
		a.mu.Lock()
		if r.Context().Err() != nil {
			return
		}
	}
}

// answerClaim gives those of the leases that are still held.
func (a *Arbiter) answerClaim(w http.ResponseWriter, tokens []string) {
	resp := gavelapi.ClaimResponse{Leases: []gavelapi.Lease{}, Directives: a.directives()}
	for _, t := range tokens {
		if a.leases[t].dead == "" {
			resp.Leases = append(resp.Leases, a.wire(t))
		}
	}
	reply(w, resp)
}

func (a *Arbiter) heartbeat(w http.ResponseWriter, body []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reap()
	req := decode[gavelapi.HeartbeatRequest](a, body)
	l := a.leases[req.LeaseToken]
	if l == nil {
		refuse(w, 410, "no such lease", gavelapi.LeaseUnknown)
		return
	}
	if p := req.Progress; p != nil {
		if n := len(l.phases); n == 0 || l.phases[n-1] != p.Phase {
			l.phases = append(l.phases, p.Phase)
		}
		if !l.confirmed && p.Phase != "fetching" {
			a.violate("job %d: phase %s before the first heartbeat", l.job.ID, p.Phase)
		}
	}
	if l.dead != "" {
		refuse(w, 410, "the lease is dead", l.dead)
		return
	}
	now := a.clk.Now()
	if l.confirmed {
		l.maxGap = max(l.maxGap, now.Sub(l.last))
	}
	l.confirmed, l.last, l.expires = true, now, now.Add(a.TTL)
	a.seenAt = now
	a.notify()
	reply(w, gavelapi.HeartbeatResponse{TTLMS: a.TTL.Milliseconds(), Directives: a.directives()})
}

func (a *Arbiter) result(w http.ResponseWriter, body []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reap()
	req := decode[gavelapi.ResultRequest](a, body)
	rep := req.Report
	l := a.leases[req.LeaseToken]
	if l == nil {
		reply(w, gavelapi.ResultResponse{Outcome: gavelapi.OutcomeDiscarded, Reason: gavelapi.LeaseUnknown})
		return
	}
	if !rep.One() || rep.Fault == nil && ((rep.Run != nil) != (l.job.Lease.Run != nil) || (rep.Prepare != nil) != (l.job.Lease.Prepare != nil)) || rep.Tests == nil || rep.Limits != l.job.Lease.Limits ||
		rep.Provenance.PackageDigest != l.job.Lease.PackageDigest || rep.Provenance.WorkerBuild == "" {
		a.violate("job %d: report is not complete: %s", l.job.ID, body)
	}
	if l.answer != nil {
		again := *l.answer
		if again.Outcome == gavelapi.OutcomeRecorded {
			again.Outcome = gavelapi.OutcomeAlreadyRecorded
		}
		reply(w, again)
		return
	}
	l.answer = &gavelapi.ResultResponse{Outcome: gavelapi.OutcomeRecorded}
	switch {
	case l.dead != "":
		l.answer = &gavelapi.ResultResponse{Outcome: gavelapi.OutcomeDiscarded, Reason: l.dead}
		a.attempt(l).Late++
	case rep.Fault != nil:
		a.kill(l, gavelapi.LeaseFinished, "failed")
		a.attempt(l).Blame = rep.Fault.Blame
		l.job.State, l.job.Report = "failed", &rep
	default:
		if !l.confirmed {
			a.violate("job %d: a result before the first heartbeat", l.job.ID)
		}
		a.kill(l, gavelapi.LeaseFinished, "completed")
		l.job.State, l.job.Report = "done", &rep
	}
	a.notify()
	resp := *l.answer
	resp.Directives = a.directives()
	reply(w, resp)
}

func (a *Arbiter) release(w http.ResponseWriter, body []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reap()
	req := decode[gavelapi.ReleaseRequest](a, body)
	l := a.leases[req.LeaseToken]
	switch {
	case l == nil:
		reply(w, gavelapi.ReleaseResponse{Reason: gavelapi.LeaseUnknown})
	case l.dead == gavelapi.LeaseReleased:
		reply(w, gavelapi.ReleaseResponse{Released: true})
	case l.dead != "":
		reply(w, gavelapi.ReleaseResponse{Reason: l.dead})
	default:
		a.kill(l, gavelapi.LeaseReleased, "released")
		l.job.State = "pending"
		a.notify()
		reply(w, gavelapi.ReleaseResponse{Released: true})
	}
}

// pkg serves packages of confirmed leases only.
func (a *Arbiter) pkg(w http.ResponseWriter, r *http.Request, fault Fault) {
	digest := strings.TrimPrefix(r.URL.Path, "/v1/worker/packages/")
	a.mu.Lock()
	a.reap()
	held := false
	for _, l := range a.leases {
		held = held || l.dead == "" && l.confirmed && l.job.Lease.PackageDigest == digest
	}
	data, known := a.packages[digest]
	from, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(r.Header.Get("Range"), "bytes="), "-"), 10, 64)
	a.servedFrom = append(a.servedFrom, from)
	a.mu.Unlock()
	switch {
	case !held:
		refuse(w, 403, "no lease for this package", "")
		return
	case !known:
		refuse(w, 404, "no such package", "")
		return
	}
	if fault == Corrupt {
		data = bytes.Clone(data)
		for i := range data[len(data)/2:] {
			data[len(data)/2+i] ^= 0x55
		}
	}
	w.Header().Set(client.PackageDigestHeader, digest)
	w.Header().Set("Content-Type", "application/zstd")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

// String names the fault in test output.
func (f Fault) String() string { return fmt.Sprintf("fault %d", int(f)) }
