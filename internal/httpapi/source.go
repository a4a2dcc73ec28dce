package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
)

// checkSource refuses what would not be judged as it was sent: encoding/json
// silently replaces bytes that are not UTF-8, and a NUL byte is a binary or a
// UTF-16 file more often than a program. raw is the body as it came; inputs are
// texts that came with it and may hold any bytes.
func checkSource(raw []byte, sub gavelapi.NewSubmission, inputs ...gavelapi.RunInput) error {
	text, encoded := sub.Source != "", len(sub.SourceBase64) > 0
	switch {
	case text && encoded:
		return apperr.New(apperr.Invalid, "send only one of them", "source and source_base64 are both set").At("body.source")
	case !text && !encoded:
		return apperr.New(apperr.Invalid, "send the program in source, or in source_base64 when it is not UTF-8", "the source is missing or empty").At("body.source")
	}
	var texts, places []string
	if text {
		texts, places = []string{sub.Source}, []string{"body.source"}
	}
	for i, f := range sub.Files {
		at := fmt.Sprintf("body.files[%d].content", i)
		if f.Content != "" && len(f.ContentBase64) > 0 {
			return apperr.New(apperr.Invalid, "send only one of them", "content and content_base64 are both set").At(at)
		}
		if f.Content != "" {
			texts, places = append(texts, f.Content), append(places, at)
		}
		if bytes.IndexByte(f.ContentBase64, 0) >= 0 {
			return nulError(at + "_base64")
		}
	}
	for i, in := range inputs {
		at := fmt.Sprintf("body.inputs[%d].content", i)
		if in.Content != "" && len(in.ContentBase64) > 0 {
			return apperr.New(apperr.Invalid, "send only one of them", "content and content_base64 are both set").At(at)
		}
		if in.Content != "" {
			texts, places = append(texts, in.Content), append(places, at)
		}
	}
	switch {
	case lostText(raw, texts) && len(inputs) > 0:
		return apperr.New(apperr.Invalid, "send it in source_base64 or content_base64, which take any bytes", "the source or an input is not valid UTF-8").At("body")
	case lostText(raw, texts) && len(texts) == 1:
		hint := "send it in " + places[0][strings.LastIndexByte(places[0], '.')+1:] + "_base64, which takes any bytes"
		return apperr.New(apperr.Invalid, hint, "the source is not valid UTF-8").At(places[0])
	case lostText(raw, texts): // which one it was, the decoded body does not tell
		return apperr.New(apperr.Invalid, "send it in source_base64 or content_base64, which take any bytes", "a file of the source is not valid UTF-8").At("body.files")
	case bytes.IndexByte(sub.SourceBase64, 0) >= 0:
		return nulError("body.source_base64")
	}
	return nil
}

func nulError(field string) error {
	return apperr.New(apperr.Invalid, "is it a compiled program, an archive, or text saved as UTF-16? save it as UTF-8 text",
		"the source contains NUL bytes").At(field)
}

// replacement is what decoding puts for what it cannot read.
const replacement = "\uFFFD"

// lostText says whether decoding raw put replacement characters into texts that
// it did not have: it was no UTF-8, or had escapes of half a surrogate pair.
func lostText(raw []byte, texts []string) bool {
	if len(texts) > 0 && !utf8.Valid(raw) {
		return true
	}
	got := 0
	for _, t := range texts {
		got += strings.Count(t, replacement)
	}
	return got > 0 && got > bytes.Count(raw, []byte(replacement))+bytes.Count(bytes.ToLower(raw), []byte(`\ufffd`))
}

// checkNames refuses names that decoding changed: whoever sent them would not
// find the submission under them. raw is the body as it came.
func checkNames(raw []byte, user, sourceName string) error {
	if !strings.Contains(user+sourceName, replacement) {
		return nil // decoding replaced nothing
	}
	var sent struct {
		User       json.RawMessage `json:"user"`
		SourceName json.RawMessage `json:"source_name"`
	}
	if err := json.Unmarshal(raw, &sent); err != nil {
		return apperr.New(apperr.Malformed, "send JSON", "the body cannot be read").At("body")
	}
	for _, f := range []struct {
		name string
		text []byte
	}{{"user", sent.User}, {"source_name", sent.SourceName}} {
		if !exactText(f.text) {
			return apperr.New(apperr.Invalid, "send text in UTF-8, with both halves of each surrogate pair", "the text is not valid UTF-8").At("body." + f.name)
		}
	}
	return nil
}

// exactText says whether a string of JSON is decoded as it was meant: it is
// UTF-8, and no escape is half of a surrogate pair.
func exactText(literal []byte) bool {
	if !utf8.Valid(literal) {
		return false
	}
	unit := func(at int) rune {
		if at+6 > len(literal) || literal[at] != '\\' || literal[at+1] != 'u' {
			return -1
		}
		v, err := strconv.ParseUint(string(literal[at+2:at+6]), 16, 16)
		if err != nil {
			return -1
		}
		return rune(v)
	}
	for i := 0; i < len(literal); i++ {
		if literal[i] != '\\' {
			continue
		}
		switch u := unit(i); {
		case u < 0:
			i++ // another escape, of two bytes
		case !utf16.IsSurrogate(u):
			i += 5
		case utf16.DecodeRune(u, unit(i+6)) == utf8.RuneError:
			return false
		default:
			i += 11
		}
	}
	return true
}
