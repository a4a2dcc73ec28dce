package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/gavel-oj/gavel/gavelapi"
)

// Temporary says whether asking again later can help, and the earliest time
// that the arbiter wants to be asked again (0 when it did not say). It says
// nothing about whether repeating is safe: that depends on the call.
func Temporary(err error) (after time.Duration, ok bool) {
	if u, is := errors.AsType[*Unreachable](err); is {
		return u.RetryAfter, true
	}
	if p, is := errors.AsType[*gavelapi.Problem](err); is {
		switch p.Status {
		case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests,
			http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return time.Duration(p.RetryAfterMS) * time.Millisecond, true
		}
	}
	return 0, false
}

// StatusOf is the HTTP status of a refusal, 0 when err is no refusal.
func StatusOf(err error) int {
	if p, ok := errors.AsType[*gavelapi.Problem](err); ok {
		return p.Status
	}
	return 0
}

// Pause computes growing, random delays between tries. The zero value is not
// usable; it is not safe for concurrent use.
type Pause struct {
	b backoff.ExponentialBackOff
}

// NewPause makes delays that start near first and grow to about longest.
func NewPause(first, longest time.Duration) *Pause {
	p := &Pause{b: backoff.ExponentialBackOff{
		InitialInterval: first, MaxInterval: longest, Multiplier: 2, RandomizationFactor: 0.5,
	}}
	p.b.Reset()
	return p
}

// Next is the delay before the next try after err. It is never shorter than
// what the arbiter asked for, and always spread at random: an arbiter that
// tells a thousand workers "in one second" must not get a thousand requests in
// the same millisecond.
func (p *Pause) Next(err error) time.Duration {
	d := p.b.NextBackOff()
	if after, _ := Temporary(err); after > 0 {
		d = max(d, after+rand.N(after/2+1))
	}
	return d
}

// Reset starts again with short delays, after a success.
func (p *Pause) Reset() { p.b.Reset() }

// Retry repeats op until it succeeds, fails for good, or ctx ends. Use it only
// for calls that are safe to repeat. notify, when not nil, hears of each
// failure and the delay that follows.
func Retry[T any](ctx context.Context, p *Pause, op func(context.Context) (T, error), notify func(error, time.Duration)) (T, error) {
	for {
		v, err := op(ctx)
		if err == nil {
			p.Reset()
			return v, nil
		}
		if _, again := Temporary(err); !again || ctx.Err() != nil {
			return v, err
		}
		d := p.Next(err)
		if notify != nil {
			notify(err, d)
		}
		if Sleep(ctx, d) != nil {
			return v, err
		}
	}
}

// Sleep waits for d or for the end of ctx, whose cause it then returns.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
