package worker

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// RunSignalled is Run under the signals of a service. The first SIGTERM or
// SIGINT begins the orderly stop, with the grace period if there is one; the
// next one ends the grace period and hands everything back; one more calls
// exit, which must not return, with ExitInterrupted. SIGHUP changes nothing.
//
// The caller subscribes signals and closes nothing.
func (w *Worker) RunSignalled(ctx context.Context, signals <-chan os.Signal, exit func(int)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		steps := []func(string){
			func(sig string) { w.log.Info("signal: stopping", "signal", sig); stop() },
			func(sig string) {
				w.log.Info("signal: handing running work back now", "signal", sig)
				w.HandBack()
			},
			func(sig string) { w.log.Warn("signal: leaving at once", "signal", sig); exit(ExitInterrupted) },
		}
		if w.cfg.Grace == 0 {
			steps = append(steps[:1], steps[2:]...) // there is no grace to end
		}
		for {
			select {
			case sig := <-signals:
				if sig == unix.SIGHUP {
					w.log.Info("signal: nothing to reload, a restart reads the configuration", "signal", sig.String())
					continue
				}
				steps[0](sig.String())
				if len(steps) > 1 {
					steps = steps[1:]
				}
			case <-ended:
				return
			}
		}
	}()
	err := w.Run(ctx)
	close(ended)
	<-watched
	return err
}

// ExitInterrupted is the exit code of a process that was told to leave at once.
const ExitInterrupted = 130
