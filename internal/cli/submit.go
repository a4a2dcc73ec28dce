package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
)

// SubmitCmd is `gavel submit`.
type SubmitCmd struct {
	Files    []string `arg:"" name:"file" help:"Source file, or - for standard input (then -l is needed). The first is the main one, others lie beside it."`
	Problem  string   `short:"p" required:"" placeholder:"NAME" help:"Problem to hand it in for."`
	Language string   `short:"l" placeholder:"ID" help:"Language; by default guessed from the file's ending (see: gavel language list)."`
	User     string   `placeholder:"NAME" help:"Who hands it in, as your site calls them."`
	StopRule string   `enum:"first,all," default:"" placeholder:"RULE" help:"first: stop at the first failing test (default); all: run every test."`
	Priority string   `enum:"contest,practice," default:"" placeholder:"CLASS" help:"contest goes before practice (default)."`
	Wait     bool     `short:"w" help:"Wait for the verdict."`
	FailOn   string   `enum:"wrong," default:"" placeholder:"wrong" help:"wrong: wait, and exit 8 unless the verdict is AC."`
}

// Run implements kong's command.
func (cmd *SubmitCmd) Run(app *App) error {
	main := cmd.Files[0]
	files, err := readSources(app.In, main, cmd.Files[1:])
	if err != nil {
		return err
	}
	c, err := app.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	lang := cmd.Language
	if lang == "" {
		if lang, err = app.guessLanguage(c, main); err != nil {
			return err
		}
	}
	in := gavelapi.NewSubmission{Problem: cmd.Problem, Language: lang, User: cmd.User, StopRule: cmd.StopRule, Priority: cmd.Priority}
	if main != "-" {
		in.SourceName = filepath.Base(main)
	}
	total := 0
	for _, f := range files {
		total += len(f.text)
	}
	for i, f := range files {
		// Escapes can make JSON text several times as long as its source; base64
		// cannot.
		text, encoded := "", f.text
		if utf8.Valid(f.text) && total <= maxSourceBytes/4 {
			text, encoded = string(f.text), nil
		}
		if i == 0 {
			in.Source, in.SourceBase64 = text, encoded
		} else {
			in.Files = append(in.Files, gavelapi.SourceFile{Name: f.name, Content: text, ContentBase64: encoded})
		}
	}
	sub, err := handIn(app.Ctx, in, c.SubmissionCreate)
	if err != nil {
		return aboutFile(err, files)
	}
	if !cmd.Wait && cmd.FailOn == "" {
		if err := app.printSubmissions([]gavelapi.Submission{*sub}, sub); err != nil {
			return err
		}
		if app.forPeople() {
			app.note("%s submission watch %d waits for the verdict", app.program(), sub.ID)
		}
		return nil
	}
	return app.follow(c, sub.ID, cmd.FailOn)
}

// handIn makes something at the arbiter. There is one key for all tries: an
// answer that was lost must not become a second submission.
func handIn[I, O any](ctx context.Context, in I, create func(context.Context, I, string) (*O, error)) (*O, error) {
	key := rand.Text()
	tries := 0
	pause := client.NewPause(200*time.Millisecond, time.Second)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	return client.Retry(ctx, pause, func(ctx context.Context) (*O, error) {
		return create(ctx, in, key)
	}, func(err error, _ time.Duration) {
		// A user with too much waiting has it in a few seconds, too.
		if tries++; tries >= 3 || client.StatusOf(err) == http.StatusTooManyRequests {
			stop(err)
		}
	})
}

// aboutFile lets a refusal name the file that it is about, which the arbiter
// only numbers.
func aboutFile(err error, files []namedText) error {
	p, ok := errors.AsType[*gavelapi.Problem](err)
	if !ok || len(p.Errors) != 1 || len(files) < 2 {
		return err
	}
	at, field := strings.TrimPrefix(p.Errors[0].Location, "body."), ""
	for i, f := range files[1:] {
		if place := fmt.Sprintf("files[%d].", i); strings.HasPrefix(at, place) {
			at, field = f.name, strings.TrimPrefix(at, place)
		}
	}
	if at == "source_name" || at == "source" {
		at, field = cmp.Or(files[0].name, "standard input"), at
	}
	if field == "" {
		return err
	}
	named := *p
	named.Errors = []gavelapi.ProblemField{{Location: at, Message: p.Errors[0].Message}}
	return &named
}

// guessLanguage picks the language by the file's ending, as the arbiter's own
// list says.
func (a *App) guessLanguage(c *client.Client, file string) (string, error) {
	if file == "-" {
		return "", usage("name it with -l; gavel language list shows them", "the language of standard input cannot be guessed")
	}
	ext := strings.TrimPrefix(filepath.Ext(file), ".")
	if ext == "" {
		return "", usage("name the language with -l; gavel language list shows them", "%s has no ending to guess the language from", file)
	}
	list, err := c.LanguageList(a.Ctx)
	if err != nil {
		return "", err
	}
	lang, others, ok := chooseLanguage(list.Languages, ext)
	switch {
	case ok:
	case len(others) > 0:
		return "", usage("choose one with -l", "several languages have files ending in .%s: %s", ext, strings.Join(others, ", "))
	default:
		return "", usage("name the language with -l; gavel language list shows them", "no language has files ending in .%s", ext)
	}
	if len(others) > 0 {
		a.note("language %s, the default for .%s (-l chooses another: %s)", lang.ID, ext, strings.Join(others, ", "))
	}
	if len(lang.Versions) == 0 {
		a.note("warning: no worker online offers %s, the submission will wait for one", lang.ID)
	}
	return lang.ID, nil
}

// chooseLanguage finds the one language for an ending, or the one among
// several that is the default for it. The ending is first taken as it is
// written (.C is C++ to some), then in lower case.
func chooseLanguage(langs []gavelapi.LanguageInfo, ext string) (lang gavelapi.LanguageInfo, others []string, ok bool) {
	for _, e := range slices.Compact([]string{ext, strings.ToLower(ext)}) {
		var found []gavelapi.LanguageInfo
		for _, l := range langs {
			if slices.Contains(l.Extensions, e) {
				found = append(found, l)
			}
		}
		if len(found) == 0 {
			continue
		}
		choice := 0
		if len(found) > 1 {
			choice = slices.IndexFunc(found, func(l gavelapi.LanguageInfo) bool { return slices.Contains(l.DefaultFor, e) })
		}
		for i, l := range found {
			if i != choice {
				others = append(others, l.ID)
			}
		}
		if choice < 0 {
			return lang, others, false
		}
		return found[choice], others, true
	}
	return lang, nil, false
}

func orDash(s string) string { return cmp.Or(s, "-") }
