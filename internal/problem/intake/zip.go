package intake

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/klauspost/compress/flate"

	"github.com/gavel-oj/gavel/internal/apperr"
)

// OpenZip opens a zip of sizeBytes bytes. Only its list of entries is read
// now; r is read from as long as the view is used.
func OpenZip(r io.ReaderAt, sizeBytes int64) (*View, error) {
	return openZip(r, sizeBytes, defaultLimits)
}

func openZip(r io.ReaderAt, sizeBytes int64, lim limits) (*View, error) {
	if sizeBytes > lim.bytes {
		return nil, apperr.New(apperr.TooLarge, "use smaller or fewer tests", "the zip has %d bytes; the limit for a package is %s", sizeBytes, size(lim.bytes))
	}
	zr, err := listZip(r, sizeBytes, lim)
	if err != nil {
		return nil, err
	}
	b := newBuilder(lim, "zip")
	for _, f := range zr.File {
		if err := b.addFromZip(f); err != nil {
			return nil, err
		}
	}
	if b.bytes > lim.ratioFrom && b.bytes/lim.ratio > sizeBytes {
		return nil, apperr.New(apperr.TooLarge, "if the tests really are that repetitive, send fewer of them, or a directory",
			"the zip grows from %d to %d bytes when unpacked, more than %d times; such an archive is taken for a zip bomb", sizeBytes, b.bytes, lim.ratio)
	}
	return b.finish()
}

// entryListBytes is how much may be read per allowed entry while the list of
// entries is loaded: zip.NewReader keeps all of it in memory, and believes the
// archive about its length.
const entryListBytes = 256

func listZip(r io.ReaderAt, sizeBytes int64, lim limits) (*zip.Reader, error) {
	head := make([]byte, sniffBytes)
	n, err := r.ReadAt(head[:min(sniffBytes, sizeBytes)], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read zip: %w", err)
	}
	head = head[:n]
	if !strings.HasPrefix(string(head), "PK") {
		return nil, apperr.New(apperr.Invalid, "pack the problem directory as a zip", "this is %s, not a zip", sniff(head))
	}
	// 64 KiB more for the search of the end record.
	budget := &budgetReader{r: r, left: 256<<10 + int64(lim.files)*entryListBytes}
	zr, err := zip.NewReader(budget, sizeBytes)
	if err != nil {
		return nil, notAZip(err, lim)
	}
	if len(zr.File) > lim.files {
		return nil, notAZip(errTooMany, lim)
	}
	budget.unlimited = true
	return zr, nil
}

var errTooMany = errors.New("too many entries")

func notAZip(err error, lim limits) error {
	switch {
	case errors.Is(err, errTooMany):
		return apperr.New(apperr.TooLarge, "split the problem, or remove files that judging does not need", "the zip holds more than %d entries", lim.files)
	case errors.Is(err, zip.ErrFormat), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return apperr.New(apperr.Invalid, "pack it again and send it once more", "the zip is damaged or was cut short: its list of entries is missing")
	}
	return fmt.Errorf("read zip: %w", err)
}

// budgetReader ends the reading of an endless list of entries. It is used by
// one goroutine until unlimited is set, and not written after that.
type budgetReader struct {
	r         io.ReaderAt
	left      int64
	unlimited bool
}

func (b *budgetReader) ReadAt(p []byte, off int64) (int, error) {
	if !b.unlimited {
		if b.left -= int64(len(p)); b.left < 0 {
			return 0, errTooMany
		}
	}
	return b.r.ReadAt(p, off)
}

// flagEncrypted is set in the header of an entry that needs a password.
const flagEncrypted = 0x1

func (b *builder) addFromZip(f *zip.File) error {
	name := strings.TrimPrefix(f.Name, "./") // some programs write it
	if name == "" && strings.HasSuffix(f.Name, "/") {
		return nil
	}
	isDir := strings.HasSuffix(name, "/")
	name = strings.TrimSuffix(name, "/")
	if err := checkName(name); err != nil {
		return err
	}
	if hidden(name) {
		return nil
	}
	if isDir {
		return b.dir(name)
	}
	if f.Flags&flagEncrypted != 0 {
		return apperr.New(apperr.Invalid, "pack it again without a password", "is encrypted").At(entryField(name))
	}
	if f.Method != zip.Store && f.Method != zip.Deflate {
		return apperr.New(apperr.Invalid, "pack it again with the ordinary method, deflate", "is packed with method %d, which gavel does not read", f.Method).At(entryField(name))
	}
	size, ok := toInt64(f.UncompressedSize64)
	if !ok {
		size = -1 // refused as too large by put
	}
	switch mode := f.Mode(); mode.Type() {
	case 0:
		return b.file(name, size, mode&0o111 != 0, f.Open)
	case fs.ModeSymlink:
		target, err := readTarget(f)
		if err != nil {
			return apperr.New(apperr.Invalid, "put a copy of the file in its place", "is a link that cannot be read: %v", err).At(entryField(name))
		}
		return b.link(name, target)
	case fs.ModeDir:
		return b.dir(name)
	default:
		return special(name, mode.Type())
	}
}

// maxTargetBytes bounds the target of a link.
const maxTargetBytes = 4096

func readTarget(f *zip.File) (string, error) {
	rc, err := f.Open()
	if err != nil {
		return "", err
	}
	defer func() { _ = rc.Close() }()
	b, err := io.ReadAll(io.LimitReader(rc, maxTargetBytes+1))
	if err != nil {
		return "", err
	}
	if len(b) > maxTargetBytes {
		return "", fmt.Errorf("its target has more than %d bytes", maxTargetBytes)
	}
	return string(b), nil
}

func toInt64(n uint64) (int64, bool) { return int64(n), n < 1<<62 } //nolint:gosec // the bound is checked

// ZipDir writes the problem in dir to w as a zip, in one pass, for an upload.
// It applies the rules of OpenDir first, so what a server would refuse for its
// paths or sizes is refused before anything is sent. The name of the
// directory becomes the one directory of the zip, from which the server takes
// the problem's name if it is given no other.
func ZipDir(w io.Writer, dir string) (err error) {
	v, err := OpenDir(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	zw := zip.NewWriter(w)
	zw.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestSpeed)
	})
	buf := make([]byte, 256<<10)
	err = fs.WalkDir(v, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return v.zipFile(zw, name, buf)
	})
	if err != nil {
		return err
	}
	if err := zw.Close(); err != nil {
		return fmt.Errorf("write zip: %w", err)
	}
	return nil
}

func (v *View) zipFile(zw *zip.Writer, name string, buf []byte) error {
	info, err := v.Stat(name)
	if err != nil {
		return err
	}
	h := &zip.FileHeader{Name: path.Join(v.zipTop(), name), Method: zip.Deflate}
	h.SetMode(info.Mode()&0o111 | 0o644)
	out, err := zw.CreateHeader(h)
	if err != nil {
		return fmt.Errorf("write zip: %w", err)
	}
	in, err := v.Open(name)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{in}, buf)
	return errors.Join(err, in.Close())
}

// zipTop is the directory to put around the files: the name they had, unless
// it is one that would be refused or ignored on the other side.
func (v *View) zipTop() string {
	if checkName(v.top) != nil || hidden(v.top) || strings.Contains(v.top, "/") {
		return "problem"
	}
	return v.top
}
