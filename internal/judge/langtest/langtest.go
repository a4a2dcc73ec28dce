// Package langtest runs the self-tests of languages on this machine on demand
// and shows how they went. It is what `language test` is, for any program that
// can make boxes.
package langtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/language"
)

// Tester is what tests languages. Implemented by *judge.Engine.
type Tester interface {
	SelfTestOf(ctx context.Context, languages []*language.Language) ([]judge.Offer, error)
}

// Result is one language's outcome, as it is printed.
type Result struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	OK      bool   `json:"ok"`
	Version string `json:"version,omitempty"`
	Reason  string `json:"reason,omitempty"`
	MS      int64  `json:"ms"`
}

// Select are the languages with those ids, in that order; all when there are
// none.
func Select(r *language.Registry, ids []string) ([]*language.Language, error) {
	if len(ids) == 0 {
		return r.All(), nil
	}
	var out []*language.Language
	for _, id := range ids {
		l, ok := r.Get(id)
		if !ok {
			var known []string
			for _, l := range r.All() {
				known = append(known, l.ID)
			}
			return nil, apperr.New(apperr.Invalid, "choose among "+strings.Join(known, ", "), "there is no language %q", id)
		}
		out = append(out, l)
	}
	return out, nil
}

// Run tests languages.
func Run(ctx context.Context, t Tester, languages []*language.Language) ([]Result, error) {
	offers, err := t.SelfTestOf(ctx, languages)
	if err != nil {
		return nil, err
	}
	out := make([]Result, len(languages))
	for i, l := range languages {
		o := offers[i]
		out[i] = Result{ID: l.ID, Name: l.Name, OK: o.OK, Version: o.Version, Reason: o.Reason, MS: o.Took.Milliseconds()}
	}
	return out, nil
}

// Failed counts the languages that failed.
func Failed(results []Result) (n int) {
	for _, r := range results {
		if !r.OK {
			n++
		}
	}
	return n
}

// JSON prints results for programs.
func JSON(w io.Writer, results []Result) error {
	return json.NewEncoder(w).Encode(map[string]any{"languages": results})
}

// Table prints results for people.
func Table(w io.Writer, results []Result) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "LANGUAGE\tRESULT\tTOOK\tVERSION OR REASON")
	for _, r := range results {
		word, text := "ok", r.Version
		if !r.OK {
			word, text = "failed", firstLine(r.Reason)
		}
		fmt.Fprintf(tw, "%s\t%s\t%.1f s\t%s\n", r.ID, word, (time.Duration(r.MS) * time.Millisecond).Seconds(), text)
	}
	return tw.Flush()
}

// firstLine is a reason's first line; the whole is in the JSON.
func firstLine(s string) string {
	line, rest, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if rest != "" {
		line += " …"
	}
	return line
}
