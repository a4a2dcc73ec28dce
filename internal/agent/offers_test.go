package agent

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/language"
)

// scripted passes the languages named and notes the order of asking.
type scripted struct {
	pass  []string
	asked []string
}

func (p *scripted) SelfTestOf(_ context.Context, languages []*language.Language) ([]judge.Offer, error) {
	offers := make([]judge.Offer, len(languages))
	for i, l := range languages {
		p.asked = append(p.asked, l.ID)
		offers[i] = judge.Offer{Language: l.ID, OK: slices.Contains(p.pass, l.ID), Version: "1", Reason: "no " + l.ID}
	}
	return offers, nil
}

func TestWorkerWithoutALanguageNeverRegisters(t *testing.T) {
	languages, err := language.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	p := &scripted{}
	_, err = Prove(t.Context(), p, languages, slog.New(slog.DiscardHandler))
	if e, ok := errors.AsType[*apperr.Error](err); !ok || !strings.Contains(e.Message, "cpp17: no cpp17") || e.Hint == "" {
		t.Errorf("got %v", err)
	}
	if len(p.asked) != len(languages.All()) {
		t.Errorf("gave up after %v", p.asked)
	}
}

func TestCommonLanguagesAreProvedBeforeTheFirstClaimAndTheRestBesideTheWork(t *testing.T) {
	languages, err := language.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	p := &scripted{pass: []string{"cpp17", "java"}}
	o, err := Prove(t.Context(), p, languages, slog.New(slog.DiscardHandler))
	if err != nil || len(p.asked) != len(testedFirst) {
		t.Fatalf("asked %v, %v", p.asked, err)
	}
	if got := o.Now(); len(got) != 1 || got[0] != (gavelapi.LanguageOffer{ID: "cpp17", Version: "1"}) {
		t.Errorf("offered at first: %v", got)
	}
	o.ProveRest(t.Context())
	if len(p.asked) != len(languages.All()) {
		t.Errorf("asked only %v", p.asked)
	}
	if _, known := languages.Get("java"); known && len(o.Now()) != 2 {
		t.Errorf("offered in the end: %v", o.Now())
	}
}

func TestAWorkerWithoutTheCommonLanguagesStartsWithTheFirstOtherOne(t *testing.T) {
	languages, err := language.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	var other string
	for _, l := range languages.All() {
		if !slices.Contains(testedFirst, l.ID) {
			other = l.ID
			break
		}
	}
	o, err := Prove(t.Context(), &scripted{pass: []string{other}}, languages, slog.New(slog.DiscardHandler))
	if err != nil || len(o.Now()) != 1 || o.Now()[0].ID != other {
		t.Errorf("got %v, %v", o, err)
	}
}
