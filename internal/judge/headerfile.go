package judge

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gavel-oj/gavel/internal/language"
)

// Below a compiled header's directory:
//
//	manifest.json  what it was made of
//	include/…      the compiled header, where the compiler looks for it
const (
	manifestFile = "manifest.json"
	includeDir   = "include"
)

// headerManifest says what a compiled header was made of. As long as all of it
// is the same, so is the header.
type headerManifest struct {
	Version string         `json:"version"` // the toolchain's
	Command []string       `json:"command"`
	Env     []string       `json:"env"`
	SHA256  string         `json:"sha256"` // of the compiled header
	Parts   []manifestPart `json:"parts"`  // the header, what it includes, the compiler
}

type manifestPart struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// readHeader loads what lies in dir and checks all of it. Its error says why
// the header has to be made anew.
func readHeader(dir string, lang *language.Language, version string) (*headerManifest, error) {
	text, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if err != nil {
		return nil, err
	}
	var m headerManifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	header, err := headerAmong(m.paths(), lang.Precompile.Header)
	if err != nil {
		return nil, err
	}
	switch want := lang.CompileArgv(lang.Precompile.ForHeader(header)...); {
	case m.Version != version:
		return nil, fmt.Errorf("made by %q, now there is %q", m.Version, version)
	case !slices.Equal(m.Command, want):
		return nil, fmt.Errorf("made by another command: %q, now it is %q", m.Command, want)
	case !slices.Equal(m.Env, lang.CompileEnv()):
		return nil, errors.New("made in another environment")
	}
	for _, p := range m.Parts {
		sum, err := hashFile(p.Path)
		if err != nil {
			return nil, err
		}
		if sum != p.SHA256 {
			return nil, fmt.Errorf("%s has changed", p.Path)
		}
	}
	sum, err := hashFile(filepath.Join(dir, includeDir, lang.Precompile.File))
	if err != nil {
		return nil, err
	}
	if sum != m.SHA256 {
		return nil, errors.New("compiled header is not what was made")
	}
	return &m, nil
}

func (m *headerManifest) paths() (paths []string) {
	for _, p := range m.Parts {
		paths = append(paths, p.Path)
	}
	return paths
}

// addParts hashes the files at these paths.
func (m *headerManifest) addParts(paths []string) error {
	for _, p := range paths {
		sum, err := hashFile(p)
		if err != nil {
			return err
		}
		m.Parts = append(m.Parts, manifestPart{Path: p, SHA256: sum})
	}
	return nil
}

func (m *headerManifest) write(dir string) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, manifestFile), bytes.NewReader(text), 0o644)
}

func hashFile(path string) (sum string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// maxParts bounds what a compiler may name as parts of a header.
const maxParts = 20_000

// partsOfRule reads a make rule as compilers write it and returns the files
// that its target depends on, ordered. Devices are left out: they stand for an
// empty source.
func partsOfRule(rule string) (paths []string, err error) {
	_, rest, ok := strings.Cut(rule, ": ")
	if !ok {
		return nil, fmt.Errorf("no make rule: %.100q", rule)
	}
	rest = strings.ReplaceAll(rest, "\\\n", " ")
	for p := range strings.FieldsSeq(rest) {
		if strings.ContainsAny(p, `\$`) {
			return nil, fmt.Errorf("path %q in make rule: cannot be read without doubt", p)
		}
		if !strings.HasPrefix(p, "/dev/") {
			paths = append(paths, p)
		}
	}
	return cleanParts(paths)
}

// cleanParts refuses paths that do not mean the same file in boxes and here.
func cleanParts(paths []string) ([]string, error) {
	for i, p := range paths {
		paths[i] = path.Clean(p)
		if !strings.HasPrefix(paths[i], "/usr/") {
			return nil, fmt.Errorf("%s is not below /usr, the only part of the machine that a box shows", p)
		}
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	if len(paths) > maxParts {
		return nil, fmt.Errorf("made of %d files, at most %d", len(paths), maxParts)
	}
	return paths, nil
}

// headerAmong finds the one path that header means.
func headerAmong(paths []string, header string) (found string, err error) {
	for _, p := range paths {
		if !strings.HasSuffix(p, "/"+header) {
			continue
		}
		if found != "" {
			return "", fmt.Errorf("both %s and %s are called %s", found, p, header)
		}
		found = p
	}
	if found == "" {
		return "", fmt.Errorf("no file called %s among what the compiler reads", header)
	}
	return found, nil
}
