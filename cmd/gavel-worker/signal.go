package main

import (
	"context"
	"os"
	"sync"
	"syscall"

	"github.com/gavel-oj/gavel/internal/buildinfo"
)

// untilSignal ends a context with the first signal to stop. stop ends the
// listening and returns the signals from then on, the one that ended the
// context included, for whoever listens next.
func untilSignal(parent context.Context, w world) (ctx context.Context, stop func() <-chan os.Signal) {
	ctx, cancel := context.WithCancel(parent)
	quit, done := make(chan struct{}), make(chan struct{})
	rest := make(chan os.Signal, 8)
	go func() {
		defer close(done)
		for {
			select {
			case sig := <-w.signals:
				if sig == syscall.SIGHUP {
					continue
				}
				rest <- sig
				cancel()
			case <-quit:
				return
			}
		}
	}()
	once := sync.OnceFunc(func() {
		close(quit)
		<-done
		go func() { // for the rest of the process's life
			for sig := range w.signals {
				rest <- sig
			}
		}()
	})
	return ctx, func() <-chan os.Signal {
		once()
		cancel()
		return rest
	}
}

func userAgent() string { return "gavel-worker/" + buildinfo.Version }
