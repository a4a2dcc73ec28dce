package problem

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// unpackInfix marks the temporary directories of Unpack.
const unpackInfix = ".unpack-"

// Unpack reads an archive made by WriteArchive into dir and returns the
// package. It believes nothing: the manifest must have the digest wanted, and
// only the files that it lists, in its order, with their sizes and hashes, are
// accepted; links, devices and other paths end it with an error.
//
// The work happens in a temporary directory beside dir, which is synced and
// renamed at the end: dir is complete or absent, also after a power cut. When
// dir already holds this package, that one is returned. Leftovers of a killed
// process are removed by RemoveLeftovers.
func Unpack(ctx context.Context, r io.Reader, dir, wantDigest string) (_ *Package, err error) {
	if _, ok := DigestHex(wantDigest); !ok {
		return nil, fmt.Errorf("unpack package: %q is not a package digest", wantDigest)
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("unpack package: %w", err)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+unpackInfix)
	if err != nil {
		return nil, fmt.Errorf("unpack package %s: %w", wantDigest, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(tmp))
		}
	}()
	m, err := unpackInto(ctx, r, tmp, wantDigest)
	if err != nil {
		return nil, fmt.Errorf("unpack package %s: %w", wantDigest, err)
	}
	if err := os.Rename(tmp, dir); err != nil {
		// Somebody else was faster, or an older copy is there.
		if p, openErr := Open(dir, wantDigest); openErr == nil {
			return p, os.RemoveAll(tmp)
		}
		return nil, fmt.Errorf("unpack package %s: %w", wantDigest, err)
	}
	if err := syncPath(filepath.Dir(dir)); err != nil {
		return nil, fmt.Errorf("unpack package %s: %w", wantDigest, err)
	}
	return &Package{Manifest: *m, Digest: wantDigest, Dir: dir}, nil
}

// RemoveLeftovers removes what killed Unpacks left in parent, and says how
// many there were. Call it before the first Unpack, while no other process
// unpacks there.
func RemoveLeftovers(parent string) (int, error) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return 0, fmt.Errorf("remove leftovers of packages: %w", err)
	}
	n := 0
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), ".") || !strings.Contains(e.Name(), unpackInfix) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(parent, e.Name())); err != nil {
			return n, fmt.Errorf("remove leftovers of packages: %w", err)
		}
		n++
	}
	return n, nil
}

// WriteTar writes an archive without its compression, for readers that have no
// zstd. An error means that what was written is not the whole.
func WriteTar(w io.Writer, archive io.Reader) error {
	zr, err := newDecoder(archive)
	if err != nil {
		return err
	}
	defer zr.Close()
	if _, err := io.CopyBuffer(onlyWriter{w}, onlyReader{zr}, make([]byte, copyBufferBytes)); err != nil {
		return fmt.Errorf("decompress an archive: %w", err)
	}
	return nil
}

// newDecoder reads zstd in bounded memory and without goroutines of its own.
func newDecoder(r io.Reader) (*zstd.Decoder, error) {
	zr, err := zstd.NewReader(r,
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindowBytes))
	if err != nil {
		return nil, fmt.Errorf("start zstd: %w", err)
	}
	return zr, nil
}

func unpackInto(ctx context.Context, r io.Reader, tmp, wantDigest string) (*Manifest, error) {
	root, err := os.OpenRoot(tmp)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	zr, err := newDecoder(ctxReader{ctx, r})
	if err != nil {
		return nil, err
	}
	defer zr.Close()
	tr := tar.NewReader(zr)
	m, err := unpackManifest(tr, root, wantDigest)
	if err != nil {
		return nil, err
	}
	dirs, err := makeDirs(root, m)
	if err != nil {
		return nil, err
	}
	buf := make([]byte, copyBufferBytes)
	for _, f := range m.Files {
		if err := unpackFile(tr, root, f, buf); err != nil {
			return nil, fmt.Errorf("file %q: %w", f.Path, err)
		}
	}
	if h, err := tr.Next(); err == nil {
		return nil, fmt.Errorf("the archive holds %q, which its manifest does not list", h.Name)
	} else if err != io.EOF {
		return nil, fmt.Errorf("end of archive: %w", err)
	}
	// Reading to the end proves the zstd checksum and that nothing follows.
	if n, err := io.Copy(io.Discard, io.LimitReader(zr, 1<<20)); err != nil {
		return nil, fmt.Errorf("end of archive: %w", err)
	} else if n == 1<<20 {
		return nil, errors.New("the archive has data after its end")
	}
	for _, d := range dirs {
		if err := syncPath(filepath.Join(tmp, filepath.FromSlash(d))); err != nil {
			return nil, err
		}
	}
	return m, syncPath(tmp)
}

func unpackManifest(tr *tar.Reader, root *os.Root, wantDigest string) (*Manifest, error) {
	h, err := tr.Next()
	if err != nil {
		return nil, fmt.Errorf("the archive cannot be read: %w", err)
	}
	if h.Name != ManifestName || h.Typeflag != tar.TypeReg {
		return nil, fmt.Errorf("the archive starts with %q instead of %s", h.Name, ManifestName)
	}
	if h.Size > MaxManifestBytes {
		return nil, fmt.Errorf("%s has %d bytes (at most %d)", ManifestName, h.Size, MaxManifestBytes)
	}
	b, err := io.ReadAll(io.LimitReader(tr, MaxManifestBytes))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ManifestName, err)
	}
	// The digest comes before the decoding: bytes of unknown origin are not
	// worth a closer look.
	if got := digestOf(b); got != wantDigest {
		return nil, fmt.Errorf("the archive is of another package: its manifest has digest %s", got)
	}
	m, _, err := Decode(b)
	if err != nil {
		return nil, err
	}
	out, err := root.OpenFile(ManifestName, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = out.Write(b)
	return m, errors.Join(err, finish(out, 0o444))
}

// makeDirs makes the directories of the package, parents first, and returns
// them.
func makeDirs(root *os.Root, m *Manifest) ([]string, error) {
	// MkdirTemp gave 0700, but boxes read packages as another user.
	if err := root.Chmod(".", 0o755); err != nil {
		return nil, err
	}
	var dirs []string
	made := map[string]bool{".": true}
	var mk func(d string) error
	mk = func(d string) error {
		if made[d] {
			return nil
		}
		if err := mk(path.Dir(d)); err != nil {
			return err
		}
		if err := root.Mkdir(d, 0o755); err != nil {
			return err
		}
		if err := root.Chmod(d, 0o755); err != nil { // whatever the umask says
			return err
		}
		made[d] = true
		dirs = append(dirs, d)
		return nil
	}
	for _, f := range m.Files {
		if err := mk(path.Dir(f.Path)); err != nil {
			return nil, err
		}
	}
	return dirs, nil
}

func unpackFile(tr *tar.Reader, root *os.Root, f File, buf []byte) error {
	h, err := tr.Next()
	if errors.Is(err, io.EOF) {
		return errors.New("missing: the archive ends before it")
	}
	if err != nil {
		return fmt.Errorf("the archive cannot be read: %w", err)
	}
	if h.Name != f.Path {
		return fmt.Errorf("the archive holds %q in its place", h.Name)
	}
	if h.Typeflag != tar.TypeReg {
		return fmt.Errorf("not a regular file (tar type %q)", h.Typeflag)
	}
	if h.Size != f.SizeBytes {
		return fmt.Errorf("%d bytes, but the manifest says %d", h.Size, f.SizeBytes)
	}
	out, err := root.OpenFile(f.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	sum := newSum()
	n, err := io.CopyBuffer(io.MultiWriter(onlyWriter{out}, sum), onlyReader{tr}, buf)
	if err == nil {
		err = sum.check(f, n)
	}
	// Read-only for everybody: a package never changes.
	mode := fs.FileMode(0o444)
	if f.Executable {
		mode = 0o555
	}
	return errors.Join(err, finish(out, mode))
}

// finish makes a written file durable.
func finish(f *os.File, mode fs.FileMode) error {
	return errors.Join(f.Chmod(mode), f.Sync(), f.Close())
}

// syncPath makes the entries of a directory durable.
func syncPath(p string) error {
	d, err := os.Open(p)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// ctxReader ends a long copy when its context ends.
type ctxReader struct {
	ctx context.Context //nolint:containedctx // lives for one call of Unpack
	r   io.Reader
}

func (c ctxReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}
