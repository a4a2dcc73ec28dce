package gavelapi_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/gavel-oj/gavel/gavelapi"
)

// The page from which people write workers names every field of every call,
// and every word that a field may be.
func TestTheProtocolPageIsComplete(t *testing.T) {
	raw, err := os.ReadFile("../docs/reference/worker-protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	want := func(word, where string) {
		t.Helper()
		if !strings.Contains(page, "`"+word+"`") {
			t.Errorf("the page lacks `%s` of %s", word, where)
		}
	}
	var fields func(of reflect.Type)
	seen := map[reflect.Type]bool{}
	fields = func(of reflect.Type) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice:
			fields(of.Elem())
			return
		case reflect.Struct:
		default:
			return
		}
		if seen[of] {
			return
		}
		seen[of] = true
		for f := range of.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			want(name, of.Name())
			if words := f.Tag.Get("enum"); words != "" {
				for word := range strings.SplitSeq(words, ",") {
					want(word, of.Name()+"."+name)
				}
			}
			fields(f.Type)
		}
	}
	for _, of := range []any{
		gavelapi.EnrolRequest{},
		gavelapi.EnrolResponse{},
		gavelapi.ClaimRequest{},
		gavelapi.ClaimResponse{},
		gavelapi.HeartbeatRequest{},
		gavelapi.HeartbeatResponse{},
		gavelapi.ResultRequest{},
		gavelapi.ResultResponse{},
		gavelapi.ReleaseRequest{},
		gavelapi.ReleaseResponse{},
		gavelapi.Problem{},
	} {
		fields(reflect.TypeOf(of))
	}
	for _, word := range []string{
		gavelapi.LeaseExpired, gavelapi.LeaseSuperseded, gavelapi.LeaseCancelled, gavelapi.LeaseFinished,
		gavelapi.LeaseReleased, gavelapi.LeaseUnknown, gavelapi.SkippedTest,
	} {
		want(word, "the ends of leases and tests")
	}
}
