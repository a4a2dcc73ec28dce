package httpapi

import (
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
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

// checkText refuses NUL bytes in the strings of a decoded body, naming the
// field. (Bytes that are not UTF-8 were replaced by decoding already: checkNames
// and checkSource look at the body as it came.)
func checkText(body reflect.Value) error {
	path := nulPath(body, "body")
	switch {
	case path == "":
		return nil
	case path == "body.source", strings.HasPrefix(path, "body.files[") && strings.HasSuffix(path, "].content"):
		return nulError(path)
	case strings.HasPrefix(path, "body.inputs[") && strings.HasSuffix(path, "].content"):
		return apperr.New(apperr.Invalid, "send it in content_base64, which takes any bytes", "the text contains NUL bytes").At(path)
	}
	return apperr.New(apperr.Invalid, "send text without NUL bytes", "the text contains NUL bytes").At(path)
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
