package edge

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/report"
)

// kinds of jobs that this program can do. Others in the same lanes are left to
// those who can.
var kinds = []string{"judge", "rejudge", report.KindRun}

const (
	// lackFor is how long a package that could not be had is left alone.
	lackFor = 30 * time.Second
	// sayEvery is how often a trouble with claiming is logged again.
	sayEvery = time.Minute
)

type claimRequest struct {
	me
	gavelapi.ClaimRequest
	Kinds []string `json:"kinds"`
	Turn  int      `json:"turn"` // which of the three lanes that take turns goes first
	Lacks []string `json:"lacks"`
}

type claimAnswer struct {
	Leases       []gavelapi.Lease `json:"leases"`
	Errors       []laneError      `json:"errors"`
	FailedRounds int              `json:"failed_rounds"`
	AsideMS      int64            `json:"aside_ms"`
	Drain        bool             `json:"drain"`
}

// laneError is a lane that could not be looked into.
type laneError struct {
	Lane    string `json:"lane"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Claim looks for work until there is some or the wait is over. A repeated
// request_id gets what it was granted before.
func (c *Client) Claim(ctx context.Context, in gavelapi.ClaimRequest) (*gavelapi.ClaimResponse, error) {
	end := c.cfg.Clock.Now().Add(time.Duration(in.WaitMS) * time.Millisecond)
	cached := in.Cached
	in.Cached = nil // 256 digests with each poll are of no use to the database
	for {
		resp, err := c.claimOnce(ctx, in, cached)
		c.note(ctx, err)
		if err != nil || len(resp.Leases) > 0 || resp.Directives.Drain {
			return resp, err
		}
		pause := c.cfg.Poll - c.cfg.Poll/10 + rand.N(c.cfg.Poll/5+1)
		if left := end.Sub(c.cfg.Clock.Now()); left <= 0 {
			return resp, nil
		} else if left < pause {
			pause = left
		}
		select {
		case <-c.cfg.Clock.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (c *Client) claimOnce(ctx context.Context, in gavelapi.ClaimRequest, cached []string) (*gavelapi.ClaimResponse, error) {
	who, err := c.helloAs(ctx, in.Session, in.PreviousSession)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	request := claimRequest{me: who, ClaimRequest: in, Kinds: kinds, Turn: c.turn, Lacks: c.lacking()}
	c.mu.Unlock()
	var answer claimAnswer
	if err := c.ask(ctx, "claim", c.q.EdgeClaim, request, &answer); err != nil {
		return nil, err
	}
	c.troubles(&answer)
	resp := &gavelapi.ClaimResponse{Directives: gavelapi.Directives{Drain: answer.Drain}}
	for _, l := range answer.Leases {
		if l.Kind != report.KindRun && !slices.Contains(cached, l.PackageDigest) && c.cfg.Packages.Lacks(l.PackageDigest) {
			c.decline(ctx, l)
			continue
		}
		resp.Leases = append(resp.Leases, l)
	}
	c.mu.Lock()
	c.turn = (c.turn + len(answer.Leases)) % 3
	c.mu.Unlock()
	return resp, nil
}

// lacking lists the packages to leave alone. Needs c.mu.
func (c *Client) lacking() []string {
	now := c.cfg.Clock.Now()
	maps.DeleteFunc(c.lacks, func(_ string, until time.Time) bool { return !now.Before(until) })
	return append([]string{}, slices.Sorted(maps.Keys(c.lacks))...)
}

// decline gives a job back whose package is not to be had here, without cost to
// it, and leaves such jobs to others for a while.
func (c *Client) decline(ctx context.Context, l gavelapi.Lease) {
	c.mu.Lock()
	c.lacks[l.PackageDigest] = c.cfg.Clock.Now().Add(lackFor)
	c.mu.Unlock()
	c.log.Error("the package of a job is not here; the job is left to others", "job", l.JobID, "problem", l.Problem, "package", l.PackageDigest)
	if _, err := c.Release(ctx, gavelapi.ReleaseRequest{LeaseToken: l.LeaseToken, Reason: "cannot"}); err != nil {
		c.log.Warn("handing a job back failed; its grant ends by itself", "job", l.JobID, "error", err)
	}
}

// note counts claims that fail as a whole. The database cannot count those: it
// sees only that this worker no longer looks for work, and so do the others.
func (c *Client) note(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		if c.failing >= failedRounds {
			c.log.Info("claiming works again", "failed_rounds", c.failing)
		}
		c.failing = 0
		return
	}
	if c.failing++; c.failing == failedRounds {
		c.log.Error("unhealthy: claiming failed three times in a row; nobody waits for this worker", "error", err)
	}
}

// troubles logs what the database says of a round.
func (c *Client) troubles(a *claimAnswer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.cfg.Clock.Now()
	if len(a.Errors) == 0 && a.AsideMS == 0 || a.FailedRounds != failedRounds && now.Sub(c.said) < sayEvery {
		return
	}
	c.said = now
	for _, e := range a.Errors {
		c.log.Error("a lane cannot be looked into; the others go on", "lane", e.Lane, "sqlstate", e.Code, "error", e.Message,
			"failed_rounds", a.FailedRounds, "healthy", a.FailedRounds < failedRounds)
	}
	if a.AsideMS > 0 {
		c.log.Error("set aside: the last jobs failed by a fault of this machine", "aside_ms", a.AsideMS)
	}
}
