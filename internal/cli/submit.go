package cli

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
)

// maxSourceBytes is the most that is read from a file: above any source limit
// of a package, and what fits into a request in every encoding.
const maxSourceBytes = 2 << 20

// SubmitCmd is `gavel submit`.
type SubmitCmd struct {
	File     string `arg:"" help:"Source file, or - for standard input (then -l is needed)."`
	Problem  string `short:"p" required:"" placeholder:"NAME" help:"Problem to hand it in for."`
	Language string `short:"l" placeholder:"ID" help:"Language; by default guessed from the file's ending (see: gavel language list)."`
	User     string `placeholder:"NAME" help:"Who hands it in, as your site calls them."`
	StopRule string `enum:"first,all," default:"" placeholder:"RULE" help:"first: stop at the first failing test (default); all: run every test."`
	Wait     bool   `short:"w" help:"Wait for the verdict."`
	FailOn   string `enum:"wrong," default:"" placeholder:"wrong" help:"wrong: wait, and exit 8 unless the verdict is AC."`
}

// Run implements kong's command.
func (cmd *SubmitCmd) Run(app *App) error {
	source, err := readSource(app.In, cmd.File)
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
		if lang, err = app.guessLanguage(c, cmd.File); err != nil {
			return err
		}
	}
	in := gavelapi.NewSubmission{Problem: cmd.Problem, Language: lang, User: cmd.User, StopRule: cmd.StopRule}
	if cmd.File != "-" {
		in.SourceName = filepath.Base(cmd.File)
	}
	// Escapes can make JSON text several times as long as its source; base64
	// cannot.
	if utf8.Valid(source) && len(source) <= maxSourceBytes/4 {
		in.Source = string(source)
	} else {
		in.SourceBase64 = source
	}
	// One key for all tries: an answer that was lost must not become a second
	// submission.
	key := rand.Text()
	tries := 0
	pause := client.NewPause(200*time.Millisecond, time.Second)
	ctx, stop := context.WithCancelCause(app.Ctx)
	defer stop(nil)
	sub, err := client.Retry(ctx, pause, func(ctx context.Context) (*gavelapi.Submission, error) {
		return c.SubmissionCreate(ctx, in, key)
	}, func(err error, _ time.Duration) {
		if tries++; tries >= 3 {
			stop(err)
		}
	})
	if err != nil {
		return err
	}
	if !cmd.Wait && cmd.FailOn == "" {
		return app.printSubmissions([]gavelapi.Submission{*sub}, sub)
	}
	return app.follow(c, sub.ID, cmd.FailOn)
}

// readSource reads a source and refuses what cannot be one, before anything
// is sent.
func readSource(stdin io.Reader, name string) ([]byte, error) {
	r, shown := stdin, "standard input"
	if name != "-" {
		shown = name
		f, err := os.Open(name)
		if err != nil {
			hint := "check the path"
			if errors.Is(err, fs.ErrPermission) {
				hint = "check the file's permissions"
			}
			return nil, usage(hint, "cannot read %s: %s", name, reason(err))
		}
		defer f.Close()
		if st, err := f.Stat(); err == nil && st.IsDir() {
			return nil, usage("name one source file; a problem package is published with: gavel problem import", "%s is a directory", name)
		}
		r = f
	}
	data, err := io.ReadAll(io.LimitReader(r, maxSourceBytes+1))
	switch at := bytes.IndexByte(data, 0); {
	case err != nil:
		return nil, failed("check the file", "cannot read %s: %s", shown, reason(err))
	case len(data) > maxSourceBytes:
		return nil, usage("is it really a source file?", "%s is larger than the %s that a source may have", shown, size(maxSourceBytes))
	case len(data) == 0:
		return nil, usage("name a file with a program in it", "%s is empty", shown)
	case bytes.HasPrefix(data, []byte{0xff, 0xfe}) || bytes.HasPrefix(data, []byte{0xfe, 0xff}):
		return nil, usage("save it as UTF-8: iconv -f UTF-16 -t UTF-8", "%s is UTF-16 text", shown)
	case at >= 0:
		return nil, usage("is it a compiled program or an archive? submit the source", "%s contains a NUL byte at offset %d", shown, at)
	}
	return data, nil
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
