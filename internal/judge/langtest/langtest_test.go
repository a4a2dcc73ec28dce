package langtest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/judge/langtest"
	"github.com/gavel-oj/gavel/internal/language"
)

// tester answers with fixed offers.
type tester struct {
	offers []judge.Offer
	err    error
	asked  []string
}

func (f *tester) SelfTestOf(_ context.Context, languages []*language.Language) ([]judge.Offer, error) {
	for _, l := range languages {
		f.asked = append(f.asked, l.ID)
	}
	return f.offers, f.err
}

func TestResultsAreShownWithReasonsOfFailures(t *testing.T) {
	r, err := language.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	languages, err := langtest.Select(r, []string{"go", "c"})
	if err != nil {
		t.Fatal(err)
	}
	f := &tester{offers: []judge.Offer{
		{Language: "go", Reason: "toolchain: go can not be started\nmore", Took: 30 * time.Millisecond},
		{Language: "c", OK: true, Version: "gcc 12", Took: 1500 * time.Millisecond},
	}}
	got, err := langtest.Run(t.Context(), f, languages)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"go", "c"}, f.asked); diff != "" {
		t.Error(diff)
	}
	var table, json strings.Builder
	if err := errors.Join(langtest.Table(&table, got), langtest.JSON(&json, got)); err != nil {
		t.Fatal(err)
	}
	want := "LANGUAGE  RESULT  TOOK   VERSION OR REASON\n" +
		"go        failed  0.0 s  toolchain: go can not be started …\n" +
		"c         ok      1.5 s  gcc 12\n"
	if diff := cmp.Diff(want, table.String()); diff != "" {
		t.Error(diff)
	}
	want = `{"languages":[{"id":"go","name":"Go","ok":false,"reason":"toolchain: go can not be started\nmore","ms":30},` +
		`{"id":"c","name":"C17 (GCC)","ok":true,"version":"gcc 12","ms":1500}]}` + "\n"
	if diff := cmp.Diff(want, json.String()); diff != "" {
		t.Error(diff)
	}
	if n := langtest.Failed(got); n != 1 {
		t.Errorf("%d failed", n)
	}
	broken := errors.New("no boxes")
	if _, err := langtest.Run(t.Context(), &tester{err: broken}, languages); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

func TestSelectRefusesUnknownLanguages(t *testing.T) {
	r, err := language.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	if all, err := langtest.Select(r, nil); err != nil || len(all) != len(r.All()) {
		t.Errorf("%d of all, %v", len(all), err)
	}
	if _, err := langtest.Select(r, []string{"c", "cobol"}); err == nil || !strings.Contains(err.Error(), `no language "cobol"`) {
		t.Errorf("error %v", err)
	}
}
