package linuxbox

import (
	"github.com/gavel-oj/gavel/internal/sandbox"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func BenchmarkNoMount(b *testing.B) {
	d := buildReturnZero(b)
	dir := "/opt/gvb"
	os.MkdirAll(dir, 0o755)
	defer os.RemoveAll(dir)
	bb, _ := os.ReadFile(filepath.Join(d, "p"))
	os.WriteFile(dir+"/p", bb, 0o755)
	spec := &sandbox.Spec{Argv: []string{filepath.Join(dir, "p")}, Limits: roomyLimits(), Profile: sandbox.ProfileRun}
	p, err := Open(Config{noProof: true, ReadOnly: []string{dir}})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	box, err := p.Open(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	var inside time.Duration
	for b.Loop() {
		res, err := box.Run(b.Context(), spec)
		if err != nil || res.ExitCode != 0 {
			b.Fatalf("%+v, %v", res, err)
		}
		inside += res.Wall
	}
	b.ReportMetric(float64(inside.Nanoseconds())/float64(b.N), "program-ns/op")
}
func BenchmarkOpenMount(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		f, err := openMount(dir, true)
		if err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
}
