package importer

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/problem/intake"
)

var small = map[string]string{
	"problem.yaml":       "problem_format_version: 2025-09\nname: Sum\nuuid: x\nlimits: {time_limit: 1}\n",
	"data/secret/1.in":   "1 2\n",
	"data/secret/1.ans":  "3\n",
	"submissions/.x/a.c": "",
}

func view(t *testing.T, files map[string]string) *intake.View {
	t.Helper()
	fsys := fstest.MapFS{}
	for p, text := range files {
		fsys[p] = &fstest.MapFile{Data: []byte(text)}
	}
	v, err := intake.OpenFS(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func under(top string, files map[string]string) map[string]string {
	out := map[string]string{}
	for p, text := range files {
		out[top+"/"+p] = text
	}
	return out
}

func TestThePackageIsTheSameHoweverItIsHandedOver(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sum")
	for p, text := range small {
		write(t, filepath.Join(dir, p), text)
	}
	fromDir, err := intake.OpenDir(dir)
	must(t, err)
	defer func() { must(t, fromDir.Close()) }()
	var b bytes.Buffer
	must(t, intake.ZipDir(&b, dir))
	fromZip, err := intake.OpenZip(bytes.NewReader(b.Bytes()), int64(b.Len()))
	must(t, err)

	digests := map[string]bool{}
	for _, v := range []*intake.View{fromDir, fromZip, view(t, under("sum", small))} {
		m, files, err := Import(t.Context(), v, Options{})
		must(t, err)
		if m.Name != "sum" {
			t.Errorf("name %q", m.Name)
		}
		must(t, problem.WriteArchive(io.Discard, m, files))
		digests[problem.Digest(m)] = true
	}
	if len(digests) != 1 {
		t.Errorf("%d different digests", len(digests))
	}
}

func TestTheNameComesFromTheFirstWhoKnowsOne(t *testing.T) {
	for _, tt := range []struct {
		files map[string]string
		opts  Options
		want  string
	}{
		{under("top", small), Options{Name: "given", FileName: "file.zip"}, "given"},
		{under("top", small), Options{FileName: "file.zip"}, "top"},
		{small, Options{FileName: "file.zip"}, "file"},
		{small, Options{FileName: `C:\Users\x\My File.zip`}, "my-file"},
	} {
		m, _, err := Import(t.Context(), view(t, tt.files), tt.opts)
		must(t, err)
		if m.Name != tt.want {
			t.Errorf("name %q, want %q", m.Name, tt.want)
		}
	}
}

func TestWhatIsNoICPCPackageIsNamed(t *testing.T) {
	tests := map[string]struct {
		files         map[string]string
		field         string
		message, hint string
	}{
		"Polygon":           {map[string]string{"problem.xml": ""}, "problem.xml", "this is a Polygon package, which this version does not import", known},
		"DMOJ":              {map[string]string{"init.yml": "", "x": ""}, "init.yml", "this is a DMOJ package, which this version does not import", known},
		"Hydro":             {map[string]string{"testdata/config.yaml": "", "x": ""}, "testdata/config.yaml", "this is a Hydro package, which this version does not import", known},
		"a folder of tests": {map[string]string{"a/1.in": "", "a/1.out": ""}, "1.in", "this is a plain folder of tests without problem.yaml", known},
		"something else":    {map[string]string{"README": ""}, "", "this is not a problem package: there is no problem.yaml", known},
		"two problems":      {map[string]string{"a/problem.yaml": "", "b/problem.yaml": ""}, "", "there is no problem.yaml at the top of the package, but one in a/", "give a alone; one problem at a time"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, err := Import(t.Context(), view(t, tt.files), Options{FileName: "x.zip"})
			e, ok := errors.AsType[*apperr.Error](err)
			if !ok {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff([3]string{tt.field, tt.message, tt.hint}, [3]string{e.Field, e.Message, e.Hint}); diff != "" {
				t.Errorf("error differs (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAPackageOf300MBNeedsLittleMemory takes a large package the whole way a
// server takes it, zip, import, archive, and a worker, unpack, and watches the
// memory that the process holds.
func TestAPackageOf300MBNeedsLittleMemory(t *testing.T) {
	const size, limit = 300 << 20, 100 << 20
	dir := t.TempDir()
	zipName := filepath.Join(dir, "big.zip")
	writeBigZip(t, zipName, size)
	f, err := os.Open(zipName)
	must(t, err)
	defer func() { must(t, f.Close()) }()
	info, err := f.Stat()
	must(t, err)

	runtime.GC()
	peak := watchMemory(t)
	v, err := intake.OpenZip(f, info.Size())
	must(t, err)
	m, files, err := Import(t.Context(), v, Options{FileName: "big.zip"})
	must(t, err)
	if total := m.TotalBytes(); total < size {
		t.Fatalf("the package has %d bytes only", total)
	}
	pr, pw := io.Pipe()
	go func() { pw.CloseWithError(problem.WriteArchive(pw, m, files)) }()
	p, err := problem.Unpack(t.Context(), pr, filepath.Join(dir, "p"), problem.Digest(m))
	must(t, err)
	if grown := peak(); grown > limit {
		t.Errorf("memory grew by %d MiB", grown>>20)
	} else {
		t.Logf("memory grew by %d MiB", grown>>20)
	}
	must(t, p.Check())
}

// writeBigZip writes a package whose data are cheap to make and not cheaper to
// read than others: half stored as it is, half compressed.
func writeBigZip(t *testing.T, name string, size int64) {
	t.Helper()
	f, err := os.Create(name)
	must(t, err)
	zw := zip.NewWriter(f)
	for p, text := range small {
		w, err := zw.Create(p)
		must(t, err)
		_, err = io.WriteString(w, text)
		must(t, err)
	}
	block := make([]byte, 1<<20)
	for i, x := 0, uint32(1); i < len(block); i++ {
		x = x*1664525 + 1013904223
		block[i] = "0123456789 \n"[x>>24%12]
	}
	for i := range int64(10) {
		method := zip.Store
		if i == 0 {
			method = zip.Deflate
		}
		w, err := zw.CreateHeader(&zip.FileHeader{Name: fmt.Sprintf("data/secret/big%d.in", i), Method: method})
		must(t, err)
		for n := int64(0); n < size/10; n += int64(len(block)) {
			_, err := w.Write(block)
			must(t, err)
		}
		w, err = zw.Create(fmt.Sprintf("data/secret/big%d.ans", i))
		must(t, err)
		_, err = io.WriteString(w, strconv.Itoa(int(crc32.ChecksumIEEE(block))))
		must(t, err)
	}
	must(t, errors.Join(zw.Close(), f.Close()))
}

// watchMemory returns a function that says by how much the memory that the
// process held at most since then (VmHWM) exceeds what it held at first.
func watchMemory(t *testing.T) func() int64 {
	t.Helper()
	// 5 sets the peak back to the present size; without it the test would see
	// the peaks of earlier tests too, which are small.
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Logf("peak not set back: %v", err)
	}
	before := memory(t, "VmRSS:")
	return func() int64 { return memory(t, "VmHWM:") - before }
}

func memory(t *testing.T, field string) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	must(t, err)
	_, rest, _ := strings.Cut(string(b), field)
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	must(t, err)
	return kib << 10
}

func write(t *testing.T, name, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must(t, os.WriteFile(name, []byte(text), 0o644))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The empty inputs of a package without any are files of the stored one.
func TestAPackageWithoutInputsIsStoredWhole(t *testing.T) {
	files := map[string]string{"problem.yaml": small["problem.yaml"], "data/secret/1.ans": "3\n"}
	m, fsys, err := Import(t.Context(), view(t, files), Options{Name: "sum"})
	must(t, err)
	var b bytes.Buffer
	must(t, problem.WriteArchive(&b, m, fsys))
	pkg, err := problem.Unpack(t.Context(), &b, filepath.Join(t.TempDir(), "p"), problem.Digest(m))
	must(t, err)
	if text, err := os.ReadFile(pkg.Path("data/secret/1.in")); err != nil || len(text) != 0 {
		t.Errorf("%q, %v", text, err)
	}
}
