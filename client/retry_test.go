package client

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
)

func TestRetryGrowsItsDelayAndEndsWithSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var delays []time.Duration
		n := 0
		v, err := Retry(t.Context(), NewPause(time.Second, 30*time.Second), func(context.Context) (int, error) {
			if n++; n <= 12 {
				return 0, &Unreachable{Err: errors.New("down")}
			}
			return 42, nil
		}, func(_ error, d time.Duration) { delays = append(delays, d) })
		if v != 42 || err != nil {
			t.Fatal(v, err)
		}
		if delays[0] > 1500*time.Millisecond {
			t.Errorf("first delay %v", delays[0])
		}
		for i, d := range delays {
			if d > 45*time.Second {
				t.Errorf("delay %d is %v, over the longest", i, d)
			}
			if i >= 6 && d < 15*time.Second {
				t.Errorf("delay %d is %v: it did not grow", i, d)
			}
		}
	})
}

func TestRetryNeverAsksBeforeRetryAfterAndSpreads(t *testing.T) {
	err := &gavelapi.Problem{Status: http.StatusServiceUnavailable, RetryAfterMS: 10_000}
	seen := map[time.Duration]bool{}
	for range 50 {
		d := NewPause(time.Millisecond, time.Second).Next(err)
		if d < 10*time.Second || d > 15*time.Second {
			t.Errorf("delay %v", d)
		}
		seen[d] = true
	}
	if len(seen) < 40 {
		t.Errorf("only %d different delays of 50: many clients would return together", len(seen))
	}
}

func TestRetryStopsAtARefusal(t *testing.T) {
	n := 0
	_, err := Retry(t.Context(), NewPause(time.Millisecond, time.Second), func(context.Context) (int, error) {
		n++
		return 0, &gavelapi.Problem{Status: http.StatusGone}
	}, nil)
	if n != 1 || StatusOf(err) != http.StatusGone {
		t.Errorf("%d tries, %v", n, err)
	}
}

func TestRetryStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := Retry(ctx, NewPause(time.Second, 10*time.Second), func(context.Context) (int, error) {
			return 0, &Unreachable{Err: errors.New("down")}
		}, nil)
		if _, ok := errors.AsType[*Unreachable](err); !ok || ctx.Err() == nil {
			t.Errorf("got %v", err)
		}
	})
}
