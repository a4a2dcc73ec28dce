package arbiter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/store"
)

// source is a source that may be judged.
type source struct {
	name  string // of the main file
	main  []byte
	more  []store.SourceFile
	bytes int64 // of all files
}

// checkSource refuses what cannot be judged as it was sent. The limit is for
// all files together: splitting a source must not make it larger.
func (a *Arbiter) checkSource(n gavelapi.NewSubmission, lang *language.Language, m *problem.Manifest) (source, error) {
	src := source{name: n.SourceName, main: n.SourceBase64}
	if src.main == nil {
		src.main = []byte(n.Source)
	}
	if len(src.main) == 0 {
		return src, apperr.New(apperr.Invalid, "send the program's text", "the source is empty").At("body.source")
	}
	if err := noNUL(src.main, "body.source"); err != nil {
		return src, err
	}
	src.bytes = int64(len(src.main))
	if len(n.Files) > 0 {
		if src.name == "" {
			src.name = lang.Source
		}
		names := []string{src.name}
		for i, f := range n.Files {
			content := f.Bytes()
			if err := noNUL(content, fmt.Sprintf("body.files[%d].content", i)); err != nil {
				return src, err
			}
			names = append(names, f.Name)
			src.more = append(src.more, store.SourceFile{Name: f.Name, Content: content})
			src.bytes += int64(len(content))
		}
		if err := checkNames(lang, names); err != nil {
			return src, err
		}
	}
	limit := a.cfg.SourceBytes
	if m.Limits.CodeBytes > 0 {
		limit = min(limit, m.Limits.CodeBytes)
	}
	switch {
	case src.bytes > limit:
		of, at := "the source has", "body.source"
		if len(src.more) > 0 {
			of, at = "all files of the source together have", "body.files"
		}
		return src, apperr.New(apperr.TooLarge, "shorten it; generated tables often fit as a formula",
			"%s %d bytes, at most %d are taken", of, src.bytes, limit).At(at)
	case !lang.In(m.Languages):
		return src, apperr.New(apperr.Invalid, "choose one of the languages the problem allows", "this problem does not allow %s", lang.ID).At("body.language")
	}
	return src, nil
}

func noNUL(content []byte, field string) error {
	if at := bytes.IndexByte(content, 0); at >= 0 {
		return apperr.New(apperr.Invalid, "send the source text, not a compiled program or UTF-16 text",
			"the source contains a NUL byte at offset %d", at).At(field)
	}
	return nil
}

// checkNames puts what a language says of file names into the API's words,
// which name a place and never a value.
func checkNames(lang *language.Language, names []string) error {
	err := lang.Files(names...)
	f, ok := errors.AsType[*language.FileError](err)
	if !ok {
		return err
	}
	field := "body.source_name"
	if f.Index > 0 {
		field = fmt.Sprintf("body.files[%d].name", f.Index-1)
	}
	return apperr.New(apperr.Invalid, f.Hint, "a file of the source %s", f.Reason).At(field)
}

// SubmissionSource implements httpapi.Service.
func (a *Arbiter) SubmissionSource(ctx context.Context, id int64) (gavelapi.SubmissionSource, error) {
	r, err := a.q.SourceOfSubmission(ctx, a.db.Pool, id)
	if store.IsNoRows(err) {
		return gavelapi.SubmissionSource{}, noSubmission(id)
	}
	if err != nil {
		return gavelapi.SubmissionSource{}, unavailable(err, "read a source")
	}
	name := r.SourceName
	if lang, ok := a.cfg.Languages.Get(r.Language); ok && name == "" {
		name = lang.Source
	}
	out := gavelapi.SubmissionSource{SubmissionID: id, Language: r.Language, Files: []gavelapi.SourceFile{sourceFile(name, r.Source)}}
	for i, name := range r.FileNames {
		out.Files = append(out.Files, sourceFile(name, r.FileContents[i]))
	}
	return out, nil
}

// sourceFile is text where it can be.
func sourceFile(name string, content []byte) gavelapi.SourceFile {
	if utf8.Valid(content) {
		return gavelapi.SourceFile{Name: name, Content: string(content)}
	}
	return gavelapi.SourceFile{Name: name, ContentBase64: content}
}

func noSubmission(id int64) error {
	return apperr.New(apperr.NotFound, "gavel submission list shows the newest ones", "there is no submission %d", id)
}
