package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const printed = `goos: linux
pkg: example.org/box
BenchmarkRun/base=posix_spawn-2         	    3000	    370000 ns/op	  290000 p50-ns/op
BenchmarkRun/base=posix_spawn-2         	    3000	    380000 ns/op	  300000 p50-ns/op
BenchmarkRun/base=posix_spawn-2         	    3000	    360000 ns/op	  310000 p50-ns/op
BenchmarkRun/box-2                      	    2000	    740000 ns/op	  450000 p50-ns/op
BenchmarkRun/box-2                      	    2000	    741000 ns/op	  450000 p50-ns/op
BenchmarkRun/box-2                      	    2000	    400000 ns/op	  450000 p50-ns/op
BenchmarkAlone 	 1000000	      12.5 ns/op	       2 allocs/op
PASS
ok  	example.org/box	10.1s
`

func TestRatiosAreOfMediansToTheBaseOfTheSameBenchmark(t *testing.T) {
	results, err := parse(strings.NewReader(printed))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := report(&out, results); err != nil {
		t.Fatal(err)
	}
	var got [][]string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Fields(line))
	}
	want := [][]string{
		{"example.org/box"},
		{"Run/base=posix_spawn", "370.0", "µs"},
		{"Run/base=posix_spawn", "300.0", "µs", "p50"},
		{"Run/box", "740.0", "µs", "±46%", "2.00", "×"},
		{"Run/box", "450.0", "µs", "p50", "1.50", "×"},
		{"Alone", "12.5", "ns"},
		{"Alone", "2", "allocs/op"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestOnlyFoldersWithBenchmarksAreBuilt(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{
		"a/a_test.go":          "package a\nfunc BenchmarkX(b *testing.B) {}\n",
		"a/more_test.go":       "package a\nfunc BenchmarkY(b *testing.B) {}\n",
		"b/b_test.go":          "package b\n// func BenchmarkX(b *testing.B) {}\n",
		"testdata/c/c_test.go": "package c\nfunc BenchmarkX(b *testing.B) {}\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := withBenchmarks(".")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"./a"}, got); diff != "" {
		t.Errorf("folders (-want +got):\n%s", diff)
	}
}
