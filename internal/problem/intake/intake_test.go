package intake

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/internal/apperr"
)

// entry is one entry of a zip that a test makes.
type entry struct {
	name, data string
	mode       fs.FileMode
	flags      uint16
	method     uint16
}

func makeZip(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	zw := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Flags: e.flags}
		if e.mode != 0 {
			h.SetMode(e.mode)
		}
		if e.method != 0 {
			h.Method = e.method
			zw.RegisterCompressor(e.method, func(w io.Writer) (io.WriteCloser, error) { return nopCloser{w}, nil })
		}
		w, err := zw.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func files(names ...string) []entry {
	var es []entry
	for _, n := range names {
		es = append(es, entry{name: n, data: "content of " + n})
	}
	return es
}

func open(t *testing.T, b []byte) *View {
	t.Helper()
	v, err := OpenZip(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.Close() })
	return v
}

// contents reads a whole view.
func contents(t *testing.T, v *View) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := fs.WalkDir(v, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(v, p)
		got[p] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func wantContents(t *testing.T, v *View, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, contents(t, v)); diff != "" {
		t.Errorf("contents differ (-want +got):\n%s", diff)
	}
}

// wantError checks what a person reads: where, what, what to do.
func wantError(t *testing.T, err error, code apperr.Code, field, message, hint string) {
	t.Helper()
	e, ok := errors.AsType[*apperr.Error](err)
	if !ok {
		t.Fatalf("error %v, want an apperr.Error", err)
	}
	got := [4]string{string(e.Code), e.Field, e.Message, e.Hint}
	if want := [4]string{string(code), field, message, hint}; got != want {
		t.Errorf("error differs:\n%s", cmp.Diff(want, got))
	}
}

func TestAViewIsAFileSystem(t *testing.T) {
	v := open(t, makeZip(t, files("sum/problem.yaml", "sum/data/sample/1.in", "sum/data/sample/1.ans")...))
	if err := fstest.TestFS(v, "problem.yaml", "data/sample/1.in", "data/sample/1.ans"); err != nil {
		t.Error(err)
	}
	if v.TopDir() != "sum" || v.Files() != 3 || v.TotalBytes() == 0 {
		t.Errorf("top %q, %d files, %d bytes", v.TopDir(), v.Files(), v.TotalBytes())
	}
}

func TestJunkIsLeftOutAndASingleDirectoryTakenOff(t *testing.T) {
	want := map[string]string{"problem.yaml": "content of sum/problem.yaml", "data/1.in": "content of sum/data/1.in", ".timelimit": "content of sum/.timelimit"}
	b := makeZip(t, append(files("sum/problem.yaml", "sum/data/1.in", "sum/.timelimit", "sum/data/.timelimit/x",
		"__MACOSX/sum/._problem.yaml", ".DS_Store", "sum/.DS_Store", "sum/Thumbs.db", "sum/.git/config"),
		entry{name: "sum/"}, entry{name: "__MACOSX/"}, entry{name: "./"})...)
	wantContents(t, open(t, b), want)
	t.Run("not when there is more beside it", func(t *testing.T) {
		wantContents(t, open(t, makeZip(t, files("sum/problem.yaml", "README")...)),
			map[string]string{"sum/problem.yaml": "content of sum/problem.yaml", "README": "content of README"})
	})
	t.Run("and a leading ./", func(t *testing.T) {
		wantContents(t, open(t, makeZip(t, files("./problem.yaml", "./data/1.in")...)),
			map[string]string{"problem.yaml": "content of ./problem.yaml", "data/1.in": "content of ./data/1.in"})
	})
}

func TestZipsThatMeanHarmAreRefused(t *testing.T) {
	const repack = "pack the problem directory itself with an ordinary zip program"
	const inside = "put a copy of the file in its place; links must stay inside the package"
	link := func(name, target string) entry { return entry{name: name, data: target, mode: fs.ModeSymlink | 0o777} }
	tests := map[string]struct {
		entries              []entry
		field, message, hint string
	}{
		"a path out of the package": {files("a", "../evil"), `entry "../evil"`, `has ".." in its path; paths must stay inside the package`, repack},
		"a path out in the middle":  {files("a/../../evil"), `entry "a/../../evil"`, `has ".." in its path; paths must stay inside the package`, repack},
		"a path out as junk":        {files("a", "__MACOSX/../../evil"), `entry "__MACOSX/../../evil"`, `has ".." in its path; paths must stay inside the package`, repack},
		"an absolute path":          {files("/etc/cron.d/x"), `entry "/etc/cron.d/x"`, "has an absolute path; paths must stay inside the package", repack},
		"an absolute Windows path":  {files("C:/x"), `entry "C:/x"`, "has an absolute path; paths must stay inside the package", repack},
		"backslashes":               {files(`..\..\evil`), `entry "..\\..\\evil"`, "has a backslash in its name", "pack it with a program that writes '/' between directories"},
		"a name that is not UTF-8":  {files("\xd6\xd0.in"), `entry "\xd6\xd0.in"`, "has a name that is not UTF-8", "rename the file in plain letters, or pack it with UTF-8 names"},
		"a control character":       {files("a\x00b"), `entry "a\x00b"`, "has a path with a control character", "rename it"},
		"an empty element":          {files("a//b"), `entry "a//b"`, `has a path with ".." or empty elements`, "rename it"},
		"a name twice":              {files("a/1.in", "a/1.in"), `entry "a/1.in"`, "is in the zip twice", "remove one of them"},
		"a file and a directory":    {files("a/1", "a/1/x"), `entry "a/1/x"`, `lies below "a/1", which is not a directory`, "rename one of them"},
		"a directory and a file":    {files("a/1/x", "a/1"), `entry "a/1"`, "is in the zip twice", "remove one of them"},
		"a file below a link":       {append(files("a/x"), link("b", "a"), entry{name: "b/y"}), `entry "b/y"`, `lies below "b", which is not a directory`, "rename one of them"},
		"a long path":               {files(strings.Repeat("d/", 300) + "x"), `entry "` + strings.Repeat("d/", 50) + `…/d/d/d/d/x"`, "has a path of 601 bytes; at most 512 are allowed", "shorten its path"},
		"a link out":                {append(files("a/x"), link("a/l", "../../etc/passwd")), `entry "a/l"`, `is a link to "../../etc/passwd", which is outside the package`, inside},
		"an absolute link":          {append(files("a/x"), link("a/l", "/etc/passwd")), `entry "a/l"`, `is a link to "/etc/passwd", which is outside the package`, inside},
		"a link out through a link": {append(files("a/x"), link("a/m", "../../x"), link("a/l", "m")), `entry "a/l"`, `is a link to "../../x", which is outside the package`, inside},
		"a link to nothing":         {append(files("a/x"), link("a/l", "y")), `entry "a/l"`, `is a link to "a/y", which is not in the package`, "remove the link, or put a copy of the file in its place"},
		"links in a circle":         {append(files("a/x"), link("a/l", "m"), link("a/m", "l")), `entry "a/l"`, "is a link that leads in a circle", "remove the link"},
		"a link to its own parent":  {append(files("a/x"), link("a/l", ".")), `entry "a/l"`, "is a link to a directory that holds the link itself", "replace it by a copy"},
		"a link to more links":      {append(files("a/x"), link("a/l", "x"), link("b", "a")), `entry "b"`, "is a link to a directory that holds links itself", "replace it by a copy"},
		"a device":                  {[]entry{{name: "dev", mode: fs.ModeDevice | 0o666}}, `entry "dev"`, "is a device; a package holds only files and directories", "remove it from the package"},
		"a named pipe":              {[]entry{{name: "p", mode: fs.ModeNamedPipe | 0o666}}, `entry "p"`, "is a named pipe; a package holds only files and directories", "remove it from the package"},
		"an encrypted file":         {[]entry{{name: "a", data: "x", flags: flagEncrypted}}, `entry "a"`, "is encrypted", "pack it again without a password"},
		"an odd method":             {[]entry{{name: "a", data: "x", method: 93}}, `entry "a"`, "is packed with method 93, which gavel does not read", "pack it again with the ordinary method, deflate"},
		"no files":                  {[]entry{{name: "a/"}}, "", "the zip holds no files", "give a directory or zip that holds a problem package"},
		"only junk":                 {files("__MACOSX/x", ".DS_Store"), "", "the zip holds no files", "give a directory or zip that holds a problem package"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := makeZip(t, tt.entries...)
			_, err := OpenZip(bytes.NewReader(b), int64(len(b)))
			wantError(t, err, apperr.Invalid, tt.field, tt.message, tt.hint)
		})
	}
}

func TestLinksInsideThePackageBecomeWhatTheyPointTo(t *testing.T) {
	link := func(name, target string) entry { return entry{name: name, data: target, mode: fs.ModeSymlink | 0o777} }
	v := open(t, makeZip(t, append(files("a/x", "a/sub/y", "c"), link("b", "a"), link("d/e", "../c"), link("f", "d/e"), link("g", "b/sub/y"))...))
	x, y, c := "content of a/x", "content of a/sub/y", "content of c"
	wantContents(t, v, map[string]string{
		"a/x": x, "a/sub/y": y, "c": c, "b/x": x, "b/sub/y": y, "d/e": c, "f": c, "g": y,
	})
	if err := fstest.TestFS(v, "b/sub/y"); err != nil {
		t.Error(err)
	}
}

func TestWhatIsNotAZipIsNamed(t *testing.T) {
	tar := make([]byte, 600)
	copy(tar[257:], "ustar")
	good := makeZip(t, files("problem.yaml")...)
	for data, want := range map[string]string{
		"Rar!\x1a\x07\x01\x00rest":    "this is a RAR file, not a zip",
		"7z\xbc\xaf\x27\x1c\x00":      "this is a 7-Zip file, not a zip",
		"\x1f\x8b\x08\x00":            "this is a gzip file (perhaps .tar.gz), not a zip",
		string(tar):                   "this is a tar file, not a zip",
		"%PDF-1.7":                    "this is a PDF file, not a zip",
		"name: Sum\nlimits: {}\n":     "this is a text file, not a zip",
		"":                            "this is an empty file, not a zip",
		"\x00\x01\x02\x03":            "this is a file of an unknown type, not a zip",
		"<!DOCTYPE html><p>413":       "this is an HTML or XML page, not a zip",
		"\x28\xb5\x2f\xfd\x00":        "this is a Zstandard file (perhaps .tar.zst), not a zip",
		"\x7fELF\x02\x01":             "this is a Linux program, not a zip",
		"P":                           "this is a text file, not a zip",
		strings.Repeat("Größe ", 100): "this is a text file, not a zip",
	} {
		_, err := OpenZip(strings.NewReader(data), int64(len(data)))
		wantError(t, err, apperr.Invalid, "", want, "pack the problem directory as a zip")
	}
	for _, n := range []int{2, 10, len(good) / 2, len(good) - 1} {
		_, err := OpenZip(bytes.NewReader(good[:n]), int64(n))
		wantError(t, err, apperr.Invalid, "", "the zip is damaged or was cut short: its list of entries is missing", "pack it again and send it once more")
	}
}

func TestSizesAndNumbersAreLimited(t *testing.T) {
	lim := limits{bytes: 1000, files: 10, ratio: 5, ratioFrom: 100}
	openBytes := func(b []byte) error {
		_, err := openZip(bytes.NewReader(b), int64(len(b)), lim)
		return err
	}
	t.Run("all files together", func(t *testing.T) {
		for _, n := range []int{999, 1000, 1001} {
			_, err := openFS(fstest.MapFS{"a": {Data: make([]byte, n/2)}, "b": {Data: make([]byte, n-n/2)}}, lim)
			if n <= 1000 {
				if err != nil {
					t.Errorf("%d bytes: %v", n, err)
				}
				continue
			}
			wantError(t, err, apperr.TooLarge, `entry "b"`, "the files of the directory are larger than 1000 bytes together, the limit for a package", "use smaller or fewer tests")
		}
	})
	t.Run("the zip itself", func(t *testing.T) {
		lim.bytes = 100
		b := makeZip(t, files("a", "b", "c")...)
		wantError(t, openBytes(b), apperr.TooLarge, "", fmt.Sprintf("the zip has %d bytes; the limit for a package is 100 bytes", len(b)), "use smaller or fewer tests")
		lim.bytes = 1 << 20
	})
	t.Run("the number of entries", func(t *testing.T) {
		var names []string
		for i := range 11 {
			names = append(names, fmt.Sprint("f", i))
		}
		if err := openBytes(makeZip(t, files(names[:10]...)...)); err != nil {
			t.Errorf("10 entries: %v", err)
		}
		wantError(t, openBytes(makeZip(t, files(names...)...)), apperr.TooLarge, "", "the zip holds more than 10 entries", "split the problem, or remove files that judging does not need")
	})
	t.Run("directories count, so deep paths do not help", func(t *testing.T) {
		wantError(t, openBytes(makeZip(t, files("a/b/c/d/e/f/g/h/i/j/k")...)), apperr.TooLarge, "", "the zip holds more than 10 files", "split the problem, or remove files that judging does not need")
	})
	t.Run("a bomb", func(t *testing.T) {
		b := makeZip(t, entry{name: "a", data: strings.Repeat("0", 1<<19)})
		wantError(t, openBytes(b), apperr.TooLarge, "",
			fmt.Sprintf("the zip grows from %d to 524288 bytes when unpacked, more than 5 times; such an archive is taken for a zip bomb", len(b)),
			"if the tests really are that repetitive, send fewer of them, or a directory")
	})
}

func TestAnEntryThatLiesAboutItsSizeCannotBeRead(t *testing.T) {
	b := makeZip(t, entry{name: "a", data: strings.Repeat("0", 1<<20)})
	for _, lie := range []uint32{10, 2 << 20} {
		lying := bytes.Clone(b)
		// The uncompressed size stands 24 bytes into the entry of the list.
		at := bytes.Index(lying, []byte("PK\x01\x02")) + 24
		binary.LittleEndian.PutUint32(lying[at:], lie)
		v := open(t, lying)
		f, err := v.Open("a")
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, f)
		if err == nil || n > int64(lie) {
			t.Errorf("said %d: read %d bytes, error %v", lie, n, err)
		}
		if e, ok := errors.AsType[*apperr.Error](err); !ok || e.Field != `entry "a"` || e.Hint == "" {
			t.Errorf("error %v does not name the entry", err)
		}
		_ = f.Close()
	}
	t.Run("nor one with other content", func(t *testing.T) {
		damaged := storeOne(t, "hello")
		i := bytes.Index(damaged, []byte("hello"))
		damaged[i] = 'j'
		if _, err := fs.ReadFile(open(t, damaged), "a"); err == nil {
			t.Error("no error")
		}
	})
}

func storeOne(t *testing.T, data string) []byte {
	t.Helper()
	var b bytes.Buffer
	zw := zip.NewWriter(&b)
	w, err := zw.CreateHeader(&zip.FileHeader{Name: "a", Method: zip.Store})
	if err == nil {
		_, err = io.WriteString(w, data)
	}
	if err := errors.Join(err, zw.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestAnEndlessListOfEntriesIsNotLoaded makes a zip whose list holds far more
// entries than the end record says, which zip.NewReader would load all.
func TestAnEndlessListOfEntriesIsNotLoaded(t *testing.T) {
	one := makeZip(t, entry{name: "a", data: ""})
	i := bytes.Index(one, []byte("PK\x01\x02"))
	j := bytes.Index(one, []byte("PK\x05\x06"))
	var b bytes.Buffer
	b.Write(one[:i])
	for range 500_000 {
		b.Write(one[i:j])
	}
	b.Write(one[j:])
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := OpenZip(bytes.NewReader(b.Bytes()), int64(b.Len()))
	runtime.ReadMemStats(&after)
	if err == nil {
		t.Fatal("no error")
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
		t.Errorf("%d MiB were allocated for it", grown>>20)
	}
}

func TestADirectoryIsOpenedLikeAZip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "Sum")
	write(t, dir, "problem.yaml", "p", 0o644)
	write(t, dir, "output_validator/run", "r", 0o755)
	write(t, dir, ".git/config", "g", 0o644)
	write(t, dir, ".timelimit", "2", 0o644)
	must(t, os.Symlink("problem.yaml", filepath.Join(dir, "link")))
	v, err := OpenDir(dir)
	must(t, err)
	defer func() { must(t, v.Close()) }()
	wantContents(t, v, map[string]string{"problem.yaml": "p", "output_validator/run": "r", ".timelimit": "2", "link": "p"})
	if v.TopDir() != "Sum" {
		t.Errorf("top %q", v.TopDir())
	}
	if info, err := v.Stat("output_validator/run"); err != nil || info.Mode() != 0o555 {
		t.Errorf("mode %v, %v", info, err)
	}
}

func TestDirectoriesThatCannotBeOpened(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing")
	_, err := OpenDir(missing)
	wantError(t, err, apperr.NotFound, "", missing+" does not exist", "check the path")
	file := filepath.Join(dir, "f.zip")
	write(t, dir, "f.zip", "x", 0o644)
	_, err = OpenDir(file)
	wantError(t, err, apperr.Invalid, "", file+" is not a directory", "give a problem directory, or a zip file by its name")

	empty := t.TempDir()
	_, err = OpenDir(empty)
	wantError(t, err, apperr.Invalid, "", "the directory holds no files", "give a directory or zip that holds a problem package")

	write(t, empty, "a", "", 0o644)
	must(t, os.Symlink("/etc/passwd", filepath.Join(empty, "out")))
	_, err = OpenDir(empty)
	wantError(t, err, apperr.Invalid, `entry "out"`, `is a link to "/etc/passwd", which is outside the package`, "put a copy of the file in its place; links must stay inside the package")
	must(t, os.Remove(filepath.Join(empty, "out")))

	must(t, syscall.Mkfifo(filepath.Join(empty, "pipe"), 0o644))
	_, err = OpenDir(empty)
	wantError(t, err, apperr.Invalid, `entry "pipe"`, "is a named pipe; a package holds only files and directories", "remove it from the package")
}

func TestAFileThatGrowsWhileItIsReadIsRefused(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a", "12345", 0o644)
	v, err := OpenDir(dir)
	must(t, err)
	defer func() { must(t, v.Close()) }()
	for _, data := range []string{"123456", "1234"} {
		write(t, dir, "a", data, 0o644)
		_, err := fs.ReadFile(v, "a")
		wantError(t, err, apperr.Invalid, `entry "a"`, "cannot be read: it is not 5 bytes long, as it said", "pack it again and send it once more")
	}
}

func TestZipDirIsReadBackByOpenZip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sum")
	write(t, dir, "problem.yaml", "p", 0o644)
	write(t, dir, "output_validator/run", strings.Repeat("r", 1<<20), 0o755)
	write(t, dir, "data/empty.in", "", 0o644)
	must(t, os.Symlink("problem.yaml", filepath.Join(dir, "link")))
	var b, again bytes.Buffer
	must(t, ZipDir(&b, dir))
	must(t, ZipDir(&again, dir))
	if !bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Error("the same directory gave two different zips")
	}
	v := open(t, b.Bytes())
	wantContents(t, v, map[string]string{"problem.yaml": "p", "output_validator/run": strings.Repeat("r", 1<<20), "data/empty.in": "", "link": "p"})
	if v.TopDir() != "sum" {
		t.Errorf("top %q", v.TopDir())
	}
	if info, err := v.Stat("output_validator/run"); err != nil || info.Mode()&0o111 == 0 {
		t.Errorf("executable bit lost: %v, %v", info, err)
	}
	if err := ZipDir(io.Discard, filepath.Join(dir, "nope")); err == nil {
		t.Error("a missing directory gave no error")
	}
}

func write(t *testing.T, dir, name, data string, mode fs.FileMode) {
	t.Helper()
	p := filepath.Join(dir, name)
	must(t, os.MkdirAll(filepath.Dir(p), 0o755))
	must(t, os.WriteFile(p, []byte(data), mode))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func FuzzOpenZip(f *testing.F) {
	f.Add(makeZip(f, files("sum/problem.yaml", "sum/data/1.in")...))
	f.Add(makeZip(f, append(files("a/x"), entry{name: "b", data: "a", mode: fs.ModeSymlink | 0o777})...))
	f.Add(makeZip(f, files("../x", "/y", `a\b`)...))
	f.Add([]byte("Rar!\x1a\x07"))
	lim := limits{bytes: 1 << 20, files: 100, ratio: 250, ratioFrom: 1 << 16}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := openZip(bytes.NewReader(data), int64(len(data)), lim)
		if err != nil {
			if e, ok := errors.AsType[*apperr.Error](err); !ok || e.Hint == "" || e.Message == "" {
				t.Errorf("an error without a hint: %v", err)
			}
			return
		}
		var total int64
		err = fs.WalkDir(v, ".", func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				t.Fatal(err)
			}
			if !fs.ValidPath(p) || strings.ContainsAny(p, "\\\x00") {
				t.Errorf("path %q", p)
			}
			if d.IsDir() {
				return nil
			}
			in, err := v.Open(p)
			if err != nil {
				return nil //nolint:nilerr // damaged contents are the reader's to report
			}
			n, _ := io.Copy(io.Discard, in)
			total += n
			return in.Close()
		})
		if err != nil {
			t.Error(err)
		}
		if total > lim.bytes {
			t.Errorf("%d bytes came out", total)
		}
	})
}
