package judge_test

import (
	"bytes"
	"errors"
	"os"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/verdict"
)

// BenchmarkHundredMegabytes is how much memory the worker itself has while it
// judges a test with an input, an answer and an output of 100 MB each: the
// engine's process, at most, beside what it had before.
func BenchmarkHundredMegabytes(b *testing.B) {
	const size = 100 * 1000 * 1000
	pkg := newPackage(b, "", "")
	for i := range pkg.Manifest.Files {
		f := &pkg.Manifest.Files[i]
		if err := growFile(pkg.Path(f.Path), size); err != nil {
			b.Fatal(err)
		}
		f.SizeBytes = size
	}
	e := newEngineWith(b, judge.Config{Provider: realProvider(b), Slots: 1})
	task := newTask(pkg, "c", "#include <stdio.h>\nchar b[65536];\nint main(void){size_t n;while((n=fread(b,1,sizeof b,stdin))>0)fwrite(b,1,n,stdout);}\n")
	task.Limits.CPU *= 20
	task.Limits.OutputBytes = size
	debug.FreeOSMemory()
	before := memoryOf(b, "VmRSS:")
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // the peak starts anew
		b.Fatal(err)
	}
	for b.Loop() {
		r, err := e.Judge(b.Context(), task, quiet)
		if err != nil || r.Verdict != verdict.AC || r.Tests[0].OutputBytes != size {
			b.Fatal(r, err)
		}
	}
	b.ReportMetric(memoryOf(b, "VmHWM:"), "MiB-at-most")
	b.ReportMetric(before, "MiB-before")
}

// growFile fills a file with lines of numbers. It goes round the engine's back:
// files of a package are not written to.
func growFile(path string, size int) error {
	if err := os.Chmod(path, 0o644); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	line := bytes.Repeat([]byte("123456789 987654321\n"), 5000)
	for n := 0; n < size && err == nil; n += len(line) {
		_, err = f.Write(line[:min(len(line), size-n)])
	}
	return errors.Join(err, f.Close(), os.Chmod(path, 0o444))
}

// memoryOf is a line of this process's status, in MiB.
func memoryOf(b *testing.B, name string) float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := bytes.Cut(status, []byte("\n"+name))
	kib, err := strconv.ParseFloat(string(bytes.Fields(rest)[0]), 64)
	if err != nil {
		b.Fatal(err)
	}
	return kib / 1024
}
