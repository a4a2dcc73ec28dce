package cmdline_test

import (
	"context"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/internal/clock"
	"github.com/gavel-oj/gavel/internal/cmdline"
)

// send gives signals at instants after the start, and what comes of them.
func send(t *testing.T, at map[time.Duration][]os.Signal, each func(<-chan os.Signal)) {
	t.Helper()
	in := make(chan os.Signal, 8)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for d, signals := range at {
		time.AfterFunc(d, func() {
			for _, sig := range signals {
				in <- sig
			}
		})
	}
	each(cmdline.Wishes(ctx, in, clock.System{}, syscall.SIGTERM, syscall.SIGINT))
	time.Sleep(time.Minute) // virtual
	synctest.Wait()
	close(in)
	synctest.Wait()
}

func TestASignalThatComesTwiceAtOnceIsOneWish(t *testing.T) {
	const term, intr, hup = syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP
	for name, tc := range map[string]struct {
		at   map[time.Duration][]os.Signal
		want []os.Signal
	}{
		"child and group":      {map[time.Duration][]os.Signal{1: {term, term}}, []os.Signal{term}},
		"a little later":       {map[time.Duration][]os.Signal{1: {intr}, 499 * time.Millisecond: {intr}}, []os.Signal{intr}},
		"a person again":       {map[time.Duration][]os.Signal{1: {intr}, time.Second: {intr}}, []os.Signal{intr, intr}},
		"two kinds":            {map[time.Duration][]os.Signal{1: {term, intr, term}}, []os.Signal{term, intr}},
		"those that stop none": {map[time.Duration][]os.Signal{1: {hup, hup}}, []os.Signal{hup, hup}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got []os.Signal
				send(t, tc.at, func(wishes <-chan os.Signal) {
					go func() {
						for sig := range wishes {
							got = append(got, sig)
						}
					}()
				})
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestTheSecondWishEndsTheProgramAtOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		second time.Duration
		want   os.Signal
	}{"the same again": {100 * time.Millisecond, nil}, "another": {time.Second, syscall.SIGTERM}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got os.Signal
				var ctx context.Context
				stop := func() {}
				send(t, map[time.Duration][]os.Signal{1: {syscall.SIGTERM}, tc.second: {syscall.SIGTERM}}, func(wishes <-chan os.Signal) {
					ctx, stop = cmdline.UntilWish(t.Context(), wishes, func(sig os.Signal) { got = sig })
				})
				defer stop()
				if ctx.Err() == nil || got != tc.want {
					t.Errorf("context %v, at once %v", ctx.Err(), got)
				}
			})
		})
	}
}
