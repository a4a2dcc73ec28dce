package problem

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"time"

	"github.com/klauspost/compress/zstd"
)

// copyBufferBytes is the size of the buffers that files pass through. Memory
// use of this package does not depend on the size of any file.
const copyBufferBytes = 256 << 10

// maxWindowBytes bounds the memory that a zstd stream may ask of its reader.
const maxWindowBytes = 16 << 20

// WriteArchive writes the package as a tar.zst stream: manifest.json first,
// then the files in the manifest's order, read from src. The same manifest
// gives the same bytes. Each file is hashed on its way out, and a file that is
// no longer what the manifest says ends the writing with an error; what was
// written by then is unusable, because Unpack would refuse it.
func WriteArchive(w io.Writer, m *Manifest, src fs.FS) error {
	if err := m.Validate(); err != nil {
		return err
	}
	zw, err := zstd.NewWriter(w,
		zstd.WithEncoderConcurrency(1), // parallel blocks are not deterministic in memory, and cores are for judging
		zstd.WithWindowSize(4<<20),
		zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return fmt.Errorf("start zstd: %w", err)
	}
	if err := writeTar(zw, m, src); err != nil {
		_ = zw.Close() // the stream is broken already; this only frees the encoder
		return err
	}
	if err := zw.Close(); err != nil {
		return fmt.Errorf("finish archive: %w", err)
	}
	return nil
}

func writeTar(w io.Writer, m *Manifest, src fs.FS) error {
	tw := tar.NewWriter(w)
	manifest := Encode(m)
	if err := tw.WriteHeader(header(ManifestName, int64(len(manifest)), false)); err != nil {
		return fmt.Errorf("archive %s: %w", ManifestName, err)
	}
	if _, err := tw.Write(manifest); err != nil {
		return fmt.Errorf("archive %s: %w", ManifestName, err)
	}
	buf := make([]byte, copyBufferBytes)
	for _, f := range m.Files {
		if err := writeFile(tw, f, src, buf); err != nil {
			return fmt.Errorf("archive %q: %w", f.Path, err)
		}
	}
	if err := tw.Close(); err != nil {
		return fmt.Errorf("finish archive: %w", err)
	}
	return nil
}

func writeFile(tw *tar.Writer, f File, src fs.FS, buf []byte) error {
	in, err := src.Open(f.Path)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	if err := tw.WriteHeader(header(f.Path, f.SizeBytes, f.Executable)); err != nil {
		return err
	}
	sum := newSum()
	n, err := io.CopyBuffer(io.MultiWriter(onlyWriter{tw}, sum), onlyReader{io.LimitReader(in, f.SizeBytes)}, buf)
	if err != nil {
		return err
	}
	// A file that grew would pass as its old self without this.
	var one [1]byte
	if extra, _ := in.Read(one[:]); extra > 0 {
		return fmt.Errorf("the file is larger than the %d bytes it had at import", f.SizeBytes)
	}
	return sum.check(f, n)
}

// header makes the tar header of a file. Everything that could differ between
// machines is left at zero.
func header(name string, size int64, executable bool) *tar.Header {
	mode := int64(0o644)
	if executable {
		mode = 0o755
	}
	return &tar.Header{
		Typeflag: tar.TypeReg,
		Name:     name,
		Size:     size,
		Mode:     mode,
		ModTime:  time.Unix(0, 0),
		Format:   tar.FormatPAX,
	}
}

// sum hashes a file and compares it with the manifest.
type sum struct{ hash.Hash }

func newSum() sum { return sum{sha256.New()} }

func (s sum) check(f File, n int64) error {
	if n != f.SizeBytes {
		return fmt.Errorf("%d bytes, but the manifest says %d", n, f.SizeBytes)
	}
	if got := hex.EncodeToString(s.Sum(nil)); got != f.SHA256 {
		return fmt.Errorf("content has sha256 %s, but the manifest says %s", got, f.SHA256)
	}
	return nil
}

// onlyReader and onlyWriter hide ReadFrom and WriteTo, which would make
// io.CopyBuffer ignore its buffer and allocate one per file.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)
