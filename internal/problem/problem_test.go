package problem

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

// sample returns a small valid package.
func sample() (*Manifest, fstest.MapFS) {
	src := fstest.MapFS{
		"problem.yaml":                 {Data: []byte("name: Sum\n")},
		"data/sample/1.in":             {Data: []byte("1 2\n")},
		"data/sample/1.ans":            {Data: []byte("3\n")},
		"data/secret/" + long + ".in":  {Data: bytes.Repeat([]byte("7 "), 1<<16)},
		"data/secret/" + long + ".ans": {Data: nil},
		"output_validator/run":         {Data: []byte("#!/bin/sh\nexit 42\n"), Mode: 0o755},
	}
	m := &Manifest{
		Schema: 1, Name: "sum", Titles: map[string]string{"en": "Sum", "de": "Summe"}, Format: "icpc-2025-09",
		Limits: Limits{
			CPUMS: 1000, MemoryBytes: 256 << 20, OutputBytes: 8 << 20, CodeBytes: 128 << 10, Processes: 64,
			ValidationCPUMS: 60_000, ValidationMemoryBytes: 2048 << 20, ValidationOutputBytes: 8 << 20,
		},
		Checker: Checker{Kind: CheckerTokens},
		Tests: []Test{
			{Name: "sample/1", Sample: true, Input: "data/sample/1.in", Answer: "data/sample/1.ans"},
			{Name: "secret/" + long, Input: "data/secret/" + long + ".in", Answer: "data/secret/" + long + ".ans"},
		},
	}
	for p, f := range src {
		sum := sha256.Sum256(f.Data)
		m.Files = append(m.Files, File{Path: p, SizeBytes: int64(len(f.Data)), SHA256: hex.EncodeToString(sum[:]), Executable: f.Mode&0o111 != 0})
	}
	slices.SortFunc(m.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return m, src
}

// long does not fit a plain tar header.
var long = strings.Repeat("n", 180)

func archive(t *testing.T, m *Manifest, src fstest.MapFS) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteArchive(&b, m, src); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestArchiveComesBackAsTheSamePackage(t *testing.T) {
	m, src := sample()
	b := archive(t, m, src)
	if again := archive(t, m, src); !bytes.Equal(b, again) {
		t.Error("the same manifest gave two different archives")
	}
	dir := filepath.Join(t.TempDir(), "p")
	p, err := Unpack(t.Context(), bytes.NewReader(b), dir, Digest(m))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(*m, p.Manifest); diff != "" {
		t.Errorf("manifest differs (-want +got):\n%s", diff)
	}
	if err := p.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	opened, err := Open(dir, Digest(m))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, opened); diff != "" {
		t.Errorf("Open differs from Unpack:\n%s", diff)
	}
	for f, want := range src {
		got, err := os.ReadFile(p.Path(f))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want.Data) {
			t.Errorf("%s: content differs", f)
		}
		info, err := os.Stat(p.Path(f))
		if err != nil {
			t.Fatal(err)
		}
		wantMode := os.FileMode(0o444)
		if want.Mode&0o111 != 0 {
			wantMode = 0o555
		}
		if info.Mode() != wantMode {
			t.Errorf("%s: mode %s, want %s", f, info.Mode(), wantMode)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("package directory: %v %v, want 0755 so that boxes can read it", info.Mode(), err)
	}
}

func TestUnpackingTwiceKeepsTheFirst(t *testing.T) {
	m, src := sample()
	b := archive(t, m, src)
	dir := filepath.Join(t.TempDir(), "p")
	for range 2 {
		if _, err := Unpack(t.Context(), bytes.NewReader(b), dir, Digest(m)); err != nil {
			t.Fatal(err)
		}
	}
	onlyEntry(t, filepath.Dir(dir), "p")
}

func TestUnpackDoesNotReplaceAnotherPackage(t *testing.T) {
	m, src := sample()
	b := archive(t, m, src)
	dir := filepath.Join(t.TempDir(), "p")
	if err := os.MkdirAll(filepath.Join(dir, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Unpack(t.Context(), bytes.NewReader(b), dir, Digest(m)); err == nil {
		t.Fatal("unpacked over another directory")
	}
	onlyEntry(t, filepath.Dir(dir), "p")
	onlyEntry(t, dir, "x")
}

func TestDigestNamesEveryByteOfTheManifest(t *testing.T) {
	m, _ := sample()
	want := Digest(m)
	if !strings.HasPrefix(want, "sha256:") || len(want) != 7+64 {
		t.Fatalf("digest %q", want)
	}
	if _, ok := DigestHex(want); !ok {
		t.Error("DigestHex refuses a digest")
	}
	changes := map[string]func(*Manifest){
		"title":      func(m *Manifest) { m.Titles["en"] = "Sum!" },
		"time limit": func(m *Manifest) { m.Limits.CPUMS++ },
		"test order": func(m *Manifest) { slices.Reverse(m.Tests) },
		"a hash":     func(m *Manifest) { m.Files[0].SHA256 = m.Files[1].SHA256 },
		"checker":    func(m *Manifest) { m.Checker.Tokens.CaseSensitive = true },
	}
	for name, change := range changes {
		m, _ := sample()
		change(m)
		if Digest(m) == want {
			t.Errorf("a change of %s left the digest as it was", name)
		}
	}
	for _, bad := range []string{"", "sha256:", "md5:" + want[7:], want + "0", strings.ToUpper(want), "sha256:" + strings.Repeat("/", 64)} {
		if _, ok := DigestHex(bad); ok {
			t.Errorf("DigestHex accepts %q", bad)
		}
	}
}

// TestDigestIsStable pins the canonical form: a change here makes every
// stored package a new one.
func TestDigestIsStable(t *testing.T) {
	m := &Manifest{Schema: 1, Name: "a", Titles: map[string]string{"en": "<A>"}, Tests: []Test{}, Files: []File{}}
	const want = `{"schema":1,"name":"a","titles":{"en":"\u003cA\u003e"},"format":"","limits":{"cpu_ms":0,"memory_bytes":0,"output_bytes":0,"code_bytes":0,"processes":0,"validation_cpu_ms":0,"validation_memory_bytes":0,"validation_output_bytes":0},"checker":{"kind":""},"tests":[],"files":[]}` + "\n"
	if got := string(Encode(m)); got != want {
		t.Errorf("canonical JSON:\n got %s\nwant %s", got, want)
	}
}

func TestWriteTarGivesTheFilesOrAnError(t *testing.T) {
	m, src := sample()
	whole := archive(t, m, src)
	var plain bytes.Buffer
	if err := WriteTar(&plain, bytes.NewReader(whole)); err != nil {
		t.Fatal(err)
	}
	tr := tar.NewReader(&plain)
	head, err := tr.Next()
	if err != nil || head.Name != ManifestName {
		t.Fatalf("it begins with %+v, %v", head, err)
	}
	if got, err := io.ReadAll(tr); err != nil || digestOf(got) != Digest(m) {
		t.Errorf("the manifest is %q, %v", got, err)
	}
	for _, f := range m.Files {
		head, err := tr.Next()
		if err != nil || head.Name != f.Path {
			t.Fatalf("%+v, %v, want %s", head, err, f.Path)
		}
		if got, err := io.ReadAll(tr); err != nil || !bytes.Equal(got, src[f.Path].Data) {
			t.Errorf("%s has %d bytes, %v", f.Path, len(got), err)
		}
	}
	for _, broken := range [][]byte{whole[:len(whole)/2], []byte("no archive at all")} {
		if err := WriteTar(io.Discard, bytes.NewReader(broken)); err == nil {
			t.Error("a broken archive was taken for a whole one")
		}
	}
}

func TestWriteArchiveRefusesFilesThatChangedSinceImport(t *testing.T) {
	for name, data := range map[string]string{
		"shorter": "1\n", "longer": "1 2\n\n", "same size, other bytes": "1 3\n",
	} {
		t.Run(name, func(t *testing.T) {
			m, src := sample()
			src["data/sample/1.in"].Data = []byte(data)
			err := WriteArchive(io.Discard, m, src)
			if err == nil || !strings.Contains(err.Error(), "data/sample/1.in") {
				t.Errorf("error %v, want one that names the file", err)
			}
		})
	}
	t.Run("gone", func(t *testing.T) {
		m, src := sample()
		delete(src, "data/sample/1.in")
		if err := WriteArchive(io.Discard, m, src); err == nil {
			t.Error("no error")
		}
	})
}

// raw builds an archive by hand, so that it can lie.
func raw(t *testing.T, entries ...any) []byte {
	t.Helper()
	var b bytes.Buffer
	zw, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	tw := tar.NewWriter(zw)
	for _, e := range entries {
		switch e := e.(type) {
		case *tar.Header:
			if err := tw.WriteHeader(e); err != nil {
				t.Fatal(err)
			}
		case []byte:
			if _, err := tw.Write(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(tw.Close(), zw.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestUnpackRefusesWhatTheManifestDoesNotSay(t *testing.T) {
	m, src := sample()
	manifest := Encode(m)
	good := []any{header(ManifestName, int64(len(manifest)), false), manifest}
	var files []any // pairs of header and content, as in a good archive
	for _, f := range m.Files {
		files = append(files, header(f.Path, f.SizeBytes, f.Executable), src[f.Path].Data)
	}
	with := func(change func(e []any) []any) []any {
		return change(append(slices.Clone(good), slices.Clone(files)...))
	}
	other := header(m.Files[0].Path, 3, false)
	link := &tar.Header{Typeflag: tar.TypeSymlink, Name: m.Files[0].Path, Linkname: "/etc/passwd"}
	device := &tar.Header{Typeflag: tar.TypeChar, Name: m.Files[0].Path, Devmajor: 1, Devminor: 3}

	tests := map[string]struct {
		entries []any
		want    string
	}{
		"no manifest first":    {files, "instead of manifest.json"},
		"empty archive":        {nil, "cannot be read"},
		"files missing":        {with(func(e []any) []any { return e[:len(e)-2] }), "missing"},
		"two files swapped":    {with(func(e []any) []any { e[2], e[3], e[4], e[5] = e[4], e[5], e[2], e[3]; return e }), "in its place"},
		"an unlisted file":     {with(func(e []any) []any { return append(e, header("evil", 1, false), []byte("x")) }), `"evil", which its manifest does not list`},
		"a path outside":       {with(func(e []any) []any { return append(e, header("../evil", 1, false), []byte("x")) }), "does not list"},
		"a symbolic link":      {with(func(e []any) []any { return append(e[:2], append([]any{link}, e[4:]...)...) }), "not a regular file"},
		"a device":             {with(func(e []any) []any { return append(e[:2], append([]any{device}, e[4:]...)...) }), "not a regular file"},
		"a size that differs":  {with(func(e []any) []any { e[2], e[3] = other, []byte("3\n\n"); return e }), "3 bytes, but the manifest says 2"},
		"content that differs": {with(func(e []any) []any { e[3] = []byte("4\n"); return e }), "sha256"},
		"another manifest":     {with(func(e []any) []any { e[1] = bytes.Replace(manifest, []byte("Sum"), []byte("Som"), 1); return e }), "another package"},
		"an empty manifest":    {[]any{&tar.Header{Typeflag: tar.TypeReg, Name: ManifestName, Size: 0}}, "another package"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			_, err := Unpack(t.Context(), bytes.NewReader(raw(t, tt.entries...)), filepath.Join(parent, "p"), Digest(m))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			onlyEntry(t, parent, "")
		})
	}
}

func TestUnpackLeavesNothingWhenItIsCutShort(t *testing.T) {
	m, src := sample()
	b := archive(t, m, src)
	for _, n := range []int{0, 1, 100, len(b) / 2, len(b) - 1} {
		parent := t.TempDir()
		if _, err := Unpack(t.Context(), bytes.NewReader(b[:n]), filepath.Join(parent, "p"), Digest(m)); err == nil {
			t.Errorf("cut at %d of %d: no error", n, len(b))
		}
		onlyEntry(t, parent, "")
	}
	t.Run("by its context", func(t *testing.T) {
		parent := t.TempDir()
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("lease lost")
		cancel(cause)
		if _, err := Unpack(ctx, bytes.NewReader(b), filepath.Join(parent, "p"), Digest(m)); !errors.Is(err, cause) {
			t.Errorf("error %v, want %v", err, cause)
		}
		onlyEntry(t, parent, "")
	})
	t.Run("by data after its end", func(t *testing.T) {
		parent := t.TempDir()
		if _, err := Unpack(t.Context(), bytes.NewReader(append(slices.Clone(b), "junk"...)), filepath.Join(parent, "p"), Digest(m)); err == nil {
			t.Error("no error")
		}
		onlyEntry(t, parent, "")
	})
}

func TestLeftoversOfAKilledUnpackAreRemoved(t *testing.T) {
	parent := t.TempDir()
	for _, d := range []string{".abc" + unpackInfix + "123", "abc", ".other"} {
		if err := os.MkdirAll(filepath.Join(parent, d, "x"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := RemoveLeftovers(parent); n != 1 || err != nil {
		t.Errorf("removed %d, %v; want 1", n, err)
	}
	left, err := os.ReadDir(parent)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 2 {
		t.Errorf("left %v, want .other and abc", left)
	}
}

func TestDamageOnDiskIsFound(t *testing.T) {
	m, src := sample()
	b := archive(t, m, src)
	const victim = "data/sample/1.in"
	tests := map[string]struct {
		damage func(t *testing.T, dir string)
		cheap  bool // found by Open already
	}{
		"a file gone": {func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, victim))) }, true},
		"a file cut":  {func(t *testing.T, dir string) { must(t, os.Truncate(filepath.Join(dir, victim), 1)) }, true},
		"a link instead": {func(t *testing.T, dir string) {
			f := filepath.Join(dir, victim)
			must(t, os.Rename(f, f+"x"))
			must(t, os.Symlink(f+"x", f))
		}, true},
		"executable lost":  {func(t *testing.T, dir string) { must(t, os.Chmod(filepath.Join(dir, "output_validator/run"), 0o444)) }, true},
		"manifest changed": {func(t *testing.T, dir string) { overwrite(t, filepath.Join(dir, ManifestName), "{}") }, true},
		"manifest gone":    {func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, ManifestName))) }, true},
		"a byte turned":    {func(t *testing.T, dir string) { overwrite(t, filepath.Join(dir, victim), "1 9\n") }, false},
		"a file added":     {func(t *testing.T, dir string) { overwrite(t, filepath.Join(dir, "data/evil"), "x") }, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "p")
			p, err := Unpack(t.Context(), bytes.NewReader(b), dir, Digest(m))
			if err != nil {
				t.Fatal(err)
			}
			tt.damage(t, dir)
			if _, err := Open(dir, Digest(m)); (err != nil) != tt.cheap {
				t.Errorf("Open: %v, want an error: %t", err, tt.cheap)
			}
			if err := p.Verify(t.Context()); err == nil {
				t.Error("Verify found nothing")
			}
		})
	}
}

func TestManifestsThatLieAreRefused(t *testing.T) {
	tests := map[string]struct {
		change func(*Manifest)
		want   string
	}{
		"no tests":               {func(m *Manifest) { m.Tests = nil }, "no tests"},
		"schema from the future": {func(m *Manifest) { m.Schema = 2 }, "upgrade gavel"},
		"name with a slash":      {func(m *Manifest) { m.Name = "a/b" }, "short name"},
		"time limit 0":           {func(m *Manifest) { m.Limits.CPUMS = 0 }, "limits.cpu_ms"},
		"negative memory":        {func(m *Manifest) { m.Limits.MemoryBytes = -1 }, "limits.memory_bytes"},
		"path out":               {func(m *Manifest) { m.Files[0].Path = "../x" }, ".."},
		"absolute path":          {func(m *Manifest) { m.Files[0].Path = "/x" }, "absolute"},
		"backslash":              {func(m *Manifest) { m.Files[0].Path = `..\x` }, "backslash"},
		"control character":      {func(m *Manifest) { m.Files[0].Path = "a\nb" }, "control"},
		"its own name as a file": {func(m *Manifest) {
			m.Files[5].Path = "manifest.json"
			slices.SortFunc(m.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
		}, "gavel's own"},
		"unsorted files":          {func(m *Manifest) { slices.Reverse(m.Files) }, "not sorted"},
		"a file twice":            {func(m *Manifest) { m.Files = append(m.Files[:1], m.Files...) }, "listed twice"},
		"file and directory":      {func(m *Manifest) { m.Files[0].Path = "data/sample" }, "both a file and a directory"},
		"negative size":           {func(m *Manifest) { m.Files[0].SizeBytes = -1 }, "size"},
		"sizes beyond the limit":  {func(m *Manifest) { m.Files[0].SizeBytes, m.Files[1].SizeBytes = MaxPackageBytes, 1 }, "together"},
		"hash that is none":       {func(m *Manifest) { m.Files[0].SHA256 = "../../x" }, "hexadecimal"},
		"test without its input":  {func(m *Manifest) { m.Tests[0].Input = "data/x.in" }, "not among the files"},
		"test named twice":        {func(m *Manifest) { m.Tests[1].Name = m.Tests[0].Name }, "twice"},
		"checker nobody knows":    {func(m *Manifest) { m.Checker.Kind = "magic" }, "not known"},
		"checker without program": {func(m *Manifest) { m.Checker = Checker{Kind: CheckerProgram, Language: "cpp20", Program: "nowhere"} }, "holds no files"},
		"checker outside":         {func(m *Manifest) { m.Checker = Checker{Kind: CheckerProgram, Language: "cpp20", Program: "../x"} }, ".."},
		"trial of no known kind":  {func(m *Manifest) { m.Trials = []Trial{{Test: m.Tests[0], Kind: "magic"}} }, "not known"},
		"trial without its output": {func(m *Manifest) {
			m.Trials = []Trial{{Test: m.Tests[0], Kind: TrialValidOutput, Output: "data/x.out"}}
		}, "not among the files"},
		"trial without a name":    {func(m *Manifest) { m.Trials = []Trial{{Test: Test{Input: m.Tests[0].Input}, Kind: TrialInvalidInput}} }, "no name"},
		"submission without file": {func(m *Manifest) { m.Submissions = []Example{{Path: "x.c", Language: "c", Expected: []string{"AC"}}} }, "not among the files"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m, src := sample()
			tt.change(m)
			err := m.Validate()
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if err := WriteArchive(io.Discard, m, src); err == nil {
				t.Error("WriteArchive took it")
			}
			b := Encode(m)
			a := raw(t, header(ManifestName, int64(len(b)), false), b)
			if _, err := Unpack(t.Context(), bytes.NewReader(a), filepath.Join(t.TempDir(), "p"), Digest(m)); err == nil {
				t.Error("Unpack took it")
			}
		})
	}
}

// TestLargePackagesNeedLittleMemory holds Unpack and WriteArchive to constant
// memory: a file of 64 MiB may not show up on the heap.
func TestLargePackagesNeedLittleMemory(t *testing.T) {
	m, _ := sample()
	const size = 64 << 20
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "data/sample"), 0o755))
	block := []byte(strings.Repeat("123456789 ", 1<<16/10))
	h := sha256.New()
	f, err := os.Create(filepath.Join(dir, "data/sample/1.in"))
	must(t, err)
	n := 0
	for n < size {
		k, err := io.MultiWriter(f, h).Write(block)
		must(t, err)
		n += k
	}
	must(t, f.Close())
	overwrite(t, filepath.Join(dir, "data/sample/1.ans"), "3\n")
	ans := sha256.Sum256([]byte("3\n"))
	m.Tests = m.Tests[:1]
	m.Files = []File{
		{Path: "data/sample/1.ans", SizeBytes: 2, SHA256: hex.EncodeToString(ans[:])},
		{Path: "data/sample/1.in", SizeBytes: int64(n), SHA256: hex.EncodeToString(h.Sum(nil))},
	}
	before := totalAlloc()
	pr, pw := io.Pipe()
	go func() { pw.CloseWithError(WriteArchive(pw, m, os.DirFS(dir))) }()
	p, err := Unpack(t.Context(), pr, filepath.Join(t.TempDir(), "p"), Digest(m))
	if err != nil {
		t.Fatal(err)
	}
	if grown := totalAlloc() - before; grown > 48<<20 {
		t.Errorf("allocated %d MiB in all for a file of 64 MiB", grown>>20)
	}
	before = totalAlloc()
	must(t, p.Verify(t.Context()))
	if grown := totalAlloc() - before; grown > 2<<20 {
		t.Errorf("Verify allocated %d KiB", grown>>10)
	}
}

func totalAlloc() uint64 {
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.TotalAlloc
}

func BenchmarkOpen(b *testing.B) {
	m, src := sample()
	for i := range 200 {
		p := fmt.Sprintf("data/t/%03d.in", i)
		src[p] = &fstest.MapFile{Data: []byte("x")}
		sum := sha256.Sum256([]byte("x"))
		m.Files = append(m.Files, File{Path: p, SizeBytes: 1, SHA256: hex.EncodeToString(sum[:])})
	}
	slices.SortFunc(m.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	var buf bytes.Buffer
	if err := WriteArchive(&buf, m, src); err != nil {
		b.Fatal(err)
	}
	dir := filepath.Join(b.TempDir(), "p")
	if _, err := Unpack(b.Context(), &buf, dir, Digest(m)); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Open(dir, Digest(m)); err != nil {
			b.Fatal(err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func overwrite(t *testing.T, name, data string) {
	t.Helper()
	_ = os.Chmod(name, 0o644)
	must(t, os.WriteFile(name, []byte(data), 0o644))
}

// onlyEntry fails unless dir holds nothing but name.
func onlyEntry(t *testing.T, dir, name string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	var want []string
	if name != "" {
		want = []string{name}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries of the directory (-want +got):\n%s", diff)
	}
}

// FuzzUnpack mutates the tar inside the compression, where the decisions are.
func FuzzUnpack(f *testing.F) {
	m, src := sample()
	src["data/secret/"+long+".in"].Data = nil // small inputs are mutated faster
	for i := range m.Files {
		data := src[m.Files[i].Path].Data
		sum := sha256.Sum256(data)
		m.Files[i].SizeBytes, m.Files[i].SHA256 = int64(len(data)), hex.EncodeToString(sum[:])
	}
	var b bytes.Buffer
	if err := writeTar(&b, m, src); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	zw, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		f.Fatal(err)
	}
	digest := Digest(m)
	f.Fuzz(func(t *testing.T, data []byte) {
		// Whatever arrives, it is this package or an error.
		parent := t.TempDir()
		p, err := Unpack(t.Context(), bytes.NewReader(zw.EncodeAll(data, nil)), filepath.Join(parent, "p"), digest)
		if err != nil {
			onlyEntry(t, parent, "")
			return
		}
		if err := p.Verify(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func FuzzDecode(f *testing.F) {
	m, _ := sample()
	f.Add(Encode(m))
	f.Add([]byte(`{"schema":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, digest, err := Decode(data)
		if err != nil {
			return
		}
		again, _, err := Decode(Encode(m))
		if err != nil {
			t.Fatalf("what was accepted is not accepted again: %v", err)
		}
		if diff := cmp.Diff(m, again); diff != "" {
			t.Errorf("a second reading differs:\n%s", diff)
		}
		if _, ok := DigestHex(digest); !ok {
			t.Errorf("digest %q", digest)
		}
	})
}
