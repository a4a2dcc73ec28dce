package linuxbox

import (
	"context"
	"fmt"
	"time"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

// Weaknesses opens boxes as this process can have them, has them prove that
// limits hold, and says what is weaker than it could be.
func Weaknesses() ([]string, error) {
	p, err := Open(Config{Degraded: true})
	if err != nil {
		return nil, err
	}
	return p.Info().Weaker, p.Close()
}

// prove runs two programs that must be stopped, so that a machine whose
// cgroups exist but do not work is found at start and not by a wrong verdict.
// They are written for any shell; nothing else is needed in the box.
func (p *Provider) prove() error {
	ctx := context.Background() //nolint:forbidigo // opening has no context: the proofs are bounded by their limits
	b, err := p.Open(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	const memoryBytes, cpu = 32 << 20, 60 * time.Millisecond
	proofs := []struct {
		what, script string
		limits       func(*sandbox.Limits)
		good         func(sandbox.Result) bool
	}{
		{
			"the memory limit ends a program that takes too much",
			`x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done`,
			func(l *sandbox.Limits) { l.MemoryBytes = memoryBytes },
			func(r sandbox.Result) bool {
				return r.Fired == sandbox.LimitMemory && r.OOMKills > 0 && r.MemoryBytes > memoryBytes/2 && (p.setup.Polled || r.MemoryBytes <= memoryBytes)
			},
		},
		{
			"the CPU limit ends a program that computes too long",
			`while :; do :; done`,
			func(l *sandbox.Limits) { l.CPU = cpu },
			func(r sandbox.Result) bool { return r.Fired == sandbox.LimitCPU && r.CPU >= cpu },
		},
	}
	for _, proof := range proofs {
		spec := &sandbox.Spec{
			Argv: []string{"/bin/sh", "-c", proof.script}, Profile: sandbox.ProfileRun,
			Limits: sandbox.Limits{
				CPU: 10 * time.Second, Wall: 20 * time.Second, MemoryBytes: 256 << 20,
				StdoutBytes: 1 << 16, StderrBytes: 1 << 16, FileBytes: 1 << 20,
				DiskBytes: 1 << 20, DiskInodes: 16, Processes: 4, OpenFiles: 16,
			},
		}
		proof.limits(&spec.Limits)
		res, err := b.Run(ctx, spec)
		if err != nil {
			return err
		}
		if !proof.good(res) {
			return &sandbox.Fault{
				Op: "proof", Hint: "this machine's cgroups do not enforce limits; gavel doctor shows the layout",
				Err: fmt.Errorf("not seen that %s: %+v", proof.what, res),
			}
		}
	}
	return nil
}
