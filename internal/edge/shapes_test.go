package edge_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/report"
)

// shapeOf is a type as edge_shape describes it, without the bounds of texts.
func shapeOf(t reflect.Type) any {
	switch t.Kind() {
	case reflect.Pointer:
		return shapeOf(t.Elem())
	case reflect.Int, reflect.Int64:
		return "int"
	case reflect.Bool:
		return "bool"
	case reflect.String:
		return "text"
	case reflect.Map:
		return map[string]any{"*": shapeOf(t.Elem())}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "base64"
		}
		return []any{shapeOf(t.Elem())}
	case reflect.Struct:
		fields := map[string]any{}
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			fields[name] = shapeOf(f.Type)
		}
		return fields
	}
	panic(fmt.Sprintf("edge_shape has no word for %v", t))
}

func unbounded(shape any) any {
	switch s := shape.(type) {
	case string:
		s, _, _ = strings.Cut(s, " ")
		return s
	case []any:
		return []any{unbounded(s[0])}
	case map[string]any:
		for k := range s {
			s[k] = unbounded(s[k])
		}
	}
	return shape
}

// A field that a type gets and a shape does not is dropped on this way alone.
func TestTheShapesAreThoseOfTheTypes(t *testing.T) {
	s := newStand(t)
	for of, typ := range map[string]reflect.Type{"report": reflect.TypeFor[gavelapi.Report](), "capabilities": reflect.TypeFor[gavelapi.Capabilities]()} {
		var got any
		if err := json.Unmarshal([]byte(s.text("select edge_shape($1)::text", of)), &got); err != nil {
			t.Fatal(err)
		}
		want := shapeOf(typ).(map[string]any)
		delete(want, "outputs") // what was written in failed tests is not kept on this way
		if diff := cmp.Diff(any(want), unbounded(got)); diff != "" {
			t.Errorf("%s (-type +shape):\n%s", of, diff)
		}
	}
}

var (
	packageTests = []string{"secret/1", "secret/2", "secret/3"}
	// What a field is spoiled with: by its kind, or by anything.
	numbers = []any{0, 1, -1, 1 << 40, int64(1) << 60, json.Number("-9223372036854775808")}
	texts   = []any{
		"", "x", "AC", "WA", "TLE", "CE", "skipped", "PERFECT", "secret/1", "exit", "toolchain", "host",
		strings.Repeat("é", 200), strings.Repeat("x", 5000) + "é", "x" + strings.Repeat("é", 40_000),
	}
	replacements = append(append([]any{
		nil, true, false, 1.5, json.Number("9223372036854775808"), json.Number("1e30"),
		[]any{},
		[]any{nil},
		[]any{5},
		map[string]any{},
		map[string]any{"a": 2},
		map[string]any{"message": "x", "blame": 5},
	}, numbers...), texts...)
)

func reports() []gavelapi.Report {
	tests := func(verdicts ...string) (list []gavelapi.TestResult) {
		for i, v := range verdicts {
			list = append(list, gavelapi.TestResult{Name: packageTests[i], Verdict: v})
			if v != gavelapi.SkippedTest {
				list[i].CPUUS, list[i].WallUS, list[i].MemoryBytes, list[i].ExitCode = 5, 6, 7, 1
				list[i].Attempts = []gavelapi.TestAttempt{{CPUUS: 1, WallUS: 2}, {CPUUS: 5, WallUS: 6}}
			}
		}
		return list
	}
	provenance := gavelapi.Provenance{WorkerBuild: "1", Stages: map[string]int64{"compile": 5, "run": 9}}
	return []gavelapi.Report{
		{Verdict: "AC", Tests: tests("AC", "AC", "AC"), Provenance: provenance},
		{Verdict: "WA", CPUUS: 5, WallUS: 6, MemoryBytes: 7, Tests: tests("AC", "WA", "skipped"), Compile: gavelapi.CompileInfo{Log: "warning", CPUUS: 3, WallUS: 4}, Provenance: provenance},
		{Verdict: "CE", Compile: gavelapi.CompileInfo{Log: "error", Reason: "cpu", Header: "failed"}},
		{Fault: &gavelapi.Fault{Blame: "checker", Message: "broken"}, CPUUS: 1, Compile: gavelapi.CompileInfo{CPUUS: 3}, Provenance: provenance},
		{Run: &gavelapi.RunReport{Compiled: true, Results: []gavelapi.RunResult{{Ended: "exit", StdoutBase64: []byte("hi")}, {Ended: "cpu", Message: "x"}}}, Provenance: provenance},
		{Run: &gavelapi.RunReport{}},
		{Prepare: &gavelapi.PrepareReport{Findings: []gavelapi.Finding{{Step: "s", Outcome: "ok"}}}},
	}
}

// spoil replaces, removes or adds one thing somewhere below v.
func spoil(rt *rapid.T, v any) any {
	deeper := func() bool { return rapid.IntRange(0, 9).Draw(rt, "deeper") > 1 }
	switch x := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(x))
		for k := range x {
			keys = append(keys, k)
		}
		if len(keys) == 0 || !deeper() {
			break
		}
		k := rapid.SampledFrom(slices.Sorted(slices.Values(keys))).Draw(rt, "field")
		switch rapid.IntRange(0, 9).Draw(rt, "what") {
		case 0:
			delete(x, k)
		case 1:
			x["unheard_of"] = map[string]any{"a": 1}
		default:
			x[k] = spoil(rt, x[k])
		}
		return x
	case []any:
		if len(x) == 0 || !deeper() {
			break
		}
		i := rapid.IntRange(0, len(x)-1).Draw(rt, "element")
		switch rapid.IntRange(0, 9).Draw(rt, "what") {
		case 0:
			return append(x[:i:i], x[i+1:]...)
		case 1:
			return append(x, x[i])
		}
		x[i] = spoil(rt, x[i])
		return x
	}
	if rapid.IntRange(0, 9).Draw(rt, "another type") > 2 {
		switch v.(type) {
		case string:
			return rapid.SampledFrom(texts).Draw(rt, "text")
		case json.Number:
			return rapid.SampledFrom(numbers).Draw(rt, "number")
		}
	}
	return rapid.SampledFrom(replacements).Draw(rt, "value")
}

// Both ways are fed the same reports, good ones and ones that were spoiled in up
// to three places, and must make the same of each: the same refusal, the same
// words, or the same report, to the last field.
func TestBothWaysBelieveTheSameReports(t *testing.T) {
	s := newStand(t)
	manifest, err := json.Marshal(map[string]any{"tests": []map[string]string{{"name": packageTests[0]}, {"name": packageTests[1]}, {"name": packageTests[2]}}})
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		kind := rapid.SampledFrom([]string{"judge", "judge", "rejudge", report.KindRun}).Draw(rt, "kind")
		raw, err := json.Marshal(rapid.SampledFrom(reports()).Draw(rt, "report"))
		for range rapid.IntRange(0, 3).Draw(rt, "spoiled") {
			var tree any // anew each time: what it is spoiled with is shared
			in := json.NewDecoder(bytes.NewReader(raw))
			in.UseNumber()
			if err := errors.Join(err, in.Decode(&tree)); err != nil {
				rt.Fatal(err)
			}
			raw, err = json.Marshal(spoil(rt, tree))
		}
		if err != nil {
			rt.Fatal(err)
		}
		var want gavelapi.Report
		decoding := json.Unmarshal(raw, &want)
		if _, corrupt := errors.AsType[base64.CorruptInputError](decoding); corrupt {
			return // outputs are decoded by the gate itself
		}
		var text string
		refused := s.db.Pool.QueryRow(t.Context(), "select edge_tidy($1, $2)::text", kind, string(raw)).Scan(&text)
		if decoding != nil || refused != nil {
			answers["refused"]++
			if decoding == nil || pgCode(refused) != "GV422" {
				rt.Fatalf("over HTTPS %v, in the database %v: %s", decoding, refused, raw)
			}
			return
		}
		var got gavelapi.Report
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			rt.Fatalf("what the database would store cannot be read: %v: %s", err, text)
		}
		want = report.Tidy(kind, want)
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			rt.Fatalf("%s\n(-over HTTPS +database):\n%s", raw, diff)
		}
		if want.Fault != nil || kind == report.KindRun {
			answers["fault or run"]++
			return
		}
		var why string
		err = s.db.Pool.QueryRow(t.Context(), "select coalesce('the worker''s report contradicts its package: ' || edge_contradiction($1, $2), '')", text, string(manifest)).Scan(&why)
		if err != nil {
			rt.Fatal(err)
		}
		if told := report.Compare(&want, packageTests); told != why {
			rt.Fatalf("over HTTPS %q, in the database %q: %s", told, why, raw)
		}
		answers["compared"]++
		if why == "" {
			answers["believed"]++
		}
	})
	for _, one := range []string{"refused", "fault or run", "compared", "believed"} {
		if answers[one] == 0 {
			t.Errorf("no report was %s: this shows nothing: %v", one, answers)
		}
	}
}
