package agent

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/language"
)

// testedFirst are the languages that a worker proves before its first claim:
// those of nearly every submission, quick to test. The others are proved while
// it already works, one after the other, and offered as they pass.
var testedFirst = []string{"c", "cpp17", "cpp20", "python3"}

// Prover runs self-tests; the engine is one. It returns one Offer a language.
type Prover interface {
	SelfTestOf(ctx context.Context, languages []*language.Language) ([]judge.Offer, error)
}

// Offers are the languages that passed their self-test so far.
type Offers struct {
	engine Prover
	log    *slog.Logger
	rest   []*language.Language
	// program is what tells a language's version.
	program map[string]string

	changed chan struct{} // gets a value when more is offered; has room for one

	mu      sync.Mutex
	passed  []gavelapi.LanguageOffer
	reasons []string // of those that did not
}

// Prove tests languages until at least one has passed: first the common
// ones together, then, if need be, each of the others. A machine without any
// is no worker.
func Prove(ctx context.Context, engine Prover, languages *language.Registry, log *slog.Logger) (*Offers, error) {
	o := &Offers{engine: engine, log: log, program: map[string]string{}, changed: make(chan struct{}, 1)}
	var first []*language.Language
	for _, l := range languages.All() {
		o.program[l.ID] = l.Version.Argv[0]
		if slices.Contains(testedFirst, l.ID) {
			first = append(first, l)
		} else {
			o.rest = append(o.rest, l)
		}
	}
	if err := o.prove(ctx, first); err != nil {
		return nil, err
	}
	for len(o.Now()) == 0 && len(o.rest) > 0 {
		if err := o.proveNext(ctx); err != nil {
			return nil, err
		}
	}
	if len(o.Now()) == 0 {
		return nil, apperr.New(apperr.Unavailable, "install a compiler (g++, python3), and let gavel-worker doctor look for what is missing",
			"no language passed its self-test, so there is nothing to offer:\n  %s", strings.Join(o.reasons, "\n  "))
	}
	return o, nil
}

// ProveRest tests what is left, one language at a time, so that live work
// waits for at most one self-test.
func (o *Offers) ProveRest(ctx context.Context) {
	for len(o.rest) > 0 && ctx.Err() == nil {
		if err := o.proveNext(ctx); err != nil && ctx.Err() == nil {
			o.log.Error("self-tests ended early; the remaining languages are not offered", "error", err)
			return
		}
	}
}

func (o *Offers) proveNext(ctx context.Context) error {
	next := o.rest[:1]
	o.rest = o.rest[1:]
	return o.prove(ctx, next)
}

func (o *Offers) prove(ctx context.Context, languages []*language.Language) error {
	results, err := o.engine.SelfTestOf(ctx, languages)
	if err != nil {
		return fmt.Errorf("self-test: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range results {
		if !r.OK {
			o.log.Warn("language is not offered", "language", r.Language, "reason", r.Reason)
			o.reasons = append(o.reasons, r.Language+": "+r.Reason)
			continue
		}
		o.log.Info("language is offered", "language", r.Language, "version", r.Version, "ms", r.Took.Milliseconds())
		o.passed = append(o.passed, gavelapi.LanguageOffer{ID: r.Language, Version: language.ShortVersion(o.program[r.Language], r.Version)})
		select {
		case o.changed <- struct{}{}:
		default: // said already, and not yet looked at
		}
	}
	return nil
}

// Now is what can be offered at this moment.
func (o *Offers) Now() []gavelapi.LanguageOffer {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.passed)
}
