package httpapi

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/gavel-oj/gavel/internal/apperr"
)

// checkURL refuses paths and queries that no stored text can be equal to: the
// database takes neither NUL bytes nor invalid UTF-8, and would turn a typing
// error into an internal one.
func checkURL(r *http.Request) error {
	bad := func(s string) bool { return strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s) }
	if bad(r.URL.Path) {
		return apperr.New(apperr.Invalid, "check the address", "the path contains NUL bytes or is not UTF-8").At("path")
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return apperr.New(apperr.Malformed, "encode the query as application/x-www-form-urlencoded", "the query cannot be read").At("query")
	}
	for name, values := range q {
		if slices.ContainsFunc(append(values, name), bad) {
			return apperr.New(apperr.Invalid, "check the query", "the query contains NUL bytes or is not UTF-8").At("query")
		}
	}
	return nil
}

// text is a body whose texts people wrote, with what was sent: decoding puts
// other characters for what it cannot read, and whoever sent it would not find
// it again.
type text[T any] struct {
	RawBody []byte
	Body    T
}

// checkText refuses texts that are not stored as they were sent: what is not
// UTF-8, and NUL bytes. It names the field. raw is nil where the sender is a
// worker, whose logs are better kept with a few characters replaced.
func checkText(raw []byte, body reflect.Value) error {
	if !exactText(raw) {
		path, hint := inexactPath(raw, "body"), "send text in UTF-8, with both halves of each surrogate pair"
		if isContent(path) {
			hint = "send it in " + path[strings.LastIndexByte(path, '.')+1:] + "_base64, which takes any bytes"
		}
		return apperr.New(apperr.Invalid, hint, "the text is not valid UTF-8").At(path)
	}
	path := nulPath(body, "body")
	switch {
	case path == "":
		return nil
	case isContent(path) && strings.HasPrefix(path, "body.inputs["):
		return apperr.New(apperr.Invalid, "send it in content_base64, which takes any bytes", "the text contains NUL bytes").At(path)
	case isContent(path):
		return nulError(path)
	}
	return apperr.New(apperr.Invalid, "send text without NUL bytes", "the text contains NUL bytes").At(path)
}

// isContent says whether a place holds a source or an input, which can also be
// sent as base64.
func isContent(path string) bool {
	return path == "body.source" || strings.HasSuffix(path, "].content")
}

// inexactPath finds a text in a value of JSON that is not exactText. It stops
// at the depth of what the API knows.
func inexactPath(value json.RawMessage, path string) string {
	var list []json.RawMessage
	var object map[string]json.RawMessage
	switch {
	case strings.Count(path, ".") > 3:
	case json.Unmarshal(value, &list) == nil:
		for i, v := range list {
			if !exactText(v) {
				return inexactPath(v, path+"["+strconv.Itoa(i)+"]")
			}
		}
	case json.Unmarshal(value, &object) == nil:
		for _, name := range slices.Sorted(maps.Keys(object)) {
			if !exactText(object[name]) {
				return inexactPath(object[name], path+"."+name)
			}
		}
	}
	return path
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

// nulPath finds the first string with a NUL byte; empty when there is none.
// The keys of maps come from the request and are not part of the path.
func nulPath(v reflect.Value, path string) string {
	switch v.Kind() {
	case reflect.String:
		if strings.IndexByte(v.String(), 0) >= 0 {
			return path
		}
	case reflect.Pointer:
		if !v.IsNil() {
			return nulPath(v.Elem(), path)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return "" // bytes may be anything
		}
		for i := range v.Len() {
			if p := nulPath(v.Index(i), path+"["+strconv.Itoa(i)+"]"); p != "" {
				return p
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if nulPath(it.Key(), path) != "" || nulPath(it.Value(), path) != "" {
				return path
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() {
				continue
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if p := nulPath(v.Field(i), path+"."+name); p != "" {
				return p
			}
		}
	}
	return ""
}
