package problem

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Open returns the package in dir if it is the one wanted: its manifest has
// the digest, and every file is there with its size. It does not read the
// files; Verify does.
func Open(dir, wantDigest string) (*Package, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open package %s: %w", wantDigest, err)
	}
	b, err := readManifest(dir)
	if err != nil {
		return nil, fmt.Errorf("open package %s: %w", wantDigest, err)
	}
	if got := digestOf(b); got != wantDigest {
		return nil, fmt.Errorf("open package %s: its manifest has digest %s", wantDigest, got)
	}
	m, _, err := Decode(b)
	if err != nil {
		return nil, fmt.Errorf("open package %s: %w", wantDigest, err)
	}
	p := &Package{Manifest: *m, Digest: wantDigest, Dir: dir}
	if err := p.Check(); err != nil {
		return nil, err
	}
	return p, nil
}

func readManifest(dir string) ([]byte, error) {
	f, err := os.Open(filepath.Join(dir, ManifestName))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, MaxManifestBytes+1))
	if err != nil {
		return nil, err
	}
	if len(b) > MaxManifestBytes {
		return nil, fmt.Errorf("%s is larger than %d bytes", ManifestName, MaxManifestBytes)
	}
	return b, nil
}

// Check is the cheap look before each use: every file is there, is a regular
// file and has its size. It costs one stat per file.
func (p *Package) Check() error {
	for _, f := range p.Manifest.Files {
		// Not through os.Root: the directory is gavel's own, and a Root opens
		// each parent again for every file, three times the cost.
		info, err := os.Lstat(p.Path(f.Path))
		if err != nil {
			return fmt.Errorf("package %s: %w", p.Digest, err)
		}
		if err := f.matches(info); err != nil {
			return fmt.Errorf("package %s: file %q: %w", p.Digest, f.Path, err)
		}
	}
	return nil
}

// Verify reads every file and compares its hash: the full proof that the
// package on disk is the one that its name says. It fails on files that the
// manifest does not list, too.
func (p *Package) Verify(ctx context.Context) error {
	if err := p.Check(); err != nil {
		return err
	}
	root, err := os.OpenRoot(p.Dir)
	if err != nil {
		return fmt.Errorf("verify package %s: %w", p.Digest, err)
	}
	defer func() { _ = root.Close() }()
	b, err := readManifest(p.Dir)
	if err != nil {
		return fmt.Errorf("verify package %s: %w", p.Digest, err)
	}
	if got := digestOf(b); got != p.Digest {
		return fmt.Errorf("verify package %s: its manifest has digest %s", p.Digest, got)
	}
	listed := map[string]bool{ManifestName: true}
	buf := make([]byte, copyBufferBytes)
	for _, f := range p.Manifest.Files {
		listed[f.Path] = true
		if err := verifyFile(ctx, root, f, buf); err != nil {
			return fmt.Errorf("verify package %s: file %q: %w", p.Digest, f.Path, err)
		}
	}
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("verify package %s: %w", p.Digest, err)
		}
		if !d.IsDir() && !listed[name] {
			return fmt.Errorf("verify package %s: file %q is not in its manifest", p.Digest, name)
		}
		return nil
	})
}

func verifyFile(ctx context.Context, root *os.Root, f File, buf []byte) error {
	in, err := root.Open(f.Path)
	if err != nil {
		return err
	}
	sum := newSum()
	n, err := io.CopyBuffer(sum, onlyReader{ctxReader{ctx, in}}, buf)
	if err == nil {
		err = sum.check(f, n)
	}
	return errors.Join(err, in.Close())
}

func (f File) matches(info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("not a regular file (%s)", info.Mode().Type())
	}
	if info.Size() != f.SizeBytes {
		return fmt.Errorf("%d bytes, but the manifest says %d", info.Size(), f.SizeBytes)
	}
	if f.Executable != (info.Mode()&0o111 != 0) {
		return errors.New("its executable bit is not the manifest's")
	}
	return nil
}

// Path returns the absolute path of a file of the package, given as in the
// manifest.
func (p *Package) Path(rel string) string {
	return filepath.Join(p.Dir, filepath.FromSlash(rel))
}
