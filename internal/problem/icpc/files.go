package icpc

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"sort"
	"strings"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/problem"
)

// Sizes of the files that the importer holds in memory.
const (
	maxConfigBytes = 64 << 10 // problem.yaml, submissions.yaml, domjudge-problem.ini
	maxCaseBytes   = 16 << 10 // one .yaml of a test or group; there may be thousands
	maxSourceBytes = 1 << 20  // a source, looked through for annotations
)

// elementRE is what the format calls a file name; others do not exist for it.
var elementRE = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,254}$`)

const timelimitName = ".timelimit"

// inventory is the sorted list of the package's files.
type inventory struct {
	paths []string
	exec  map[string]bool
}

// takeInventory lists the files that exist by the format's rules, and warns
// of the others.
func takeInventory(fsys fs.FS, warn *warnings) (*inventory, error) {
	inv := &inventory{exec: map[string]bool{}}
	odd := &sample{}
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("list package: %w", err)
		}
		if p == "." {
			return nil
		}
		if !elementRE.MatchString(d.Name()) && p != timelimitName {
			if !strings.HasPrefix(d.Name(), ".") {
				odd.add(p)
			}
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			return nil
		}
		if p == problem.ManifestName {
			warn.add("%s is left out: the name is gavel's own", p)
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return fmt.Errorf("list package: %w", err)
		}
		inv.paths = append(inv.paths, p)
		if info.Mode()&0o111 != 0 {
			inv.exec[p] = true
		}
		return nil
	})
	if odd.n > 0 {
		warn.add("left out, because the format allows only letters, digits, '.', '_' and '-' in names: %s", odd)
	}
	sort.Strings(inv.paths)
	return inv, err
}

// add puts a path at its place.
func (inv *inventory) add(p string) {
	inv.paths = slices.Insert(inv.paths, sort.SearchStrings(inv.paths, p), p)
}

func (inv *inventory) has(p string) bool {
	i := sort.SearchStrings(inv.paths, p)
	return i < len(inv.paths) && inv.paths[i] == p
}

// below returns the files under dir.
func (inv *inventory) below(dir string) []string {
	from := sort.SearchStrings(inv.paths, dir+"/")
	to := sort.SearchStrings(inv.paths, dir+"0") // '0' follows '/'
	return inv.paths[from:to]
}

// first returns one file under dir, or "".
func (inv *inventory) first(dir string) string {
	if b := inv.below(dir); len(b) > 0 {
		return b[0]
	}
	return ""
}

// readSmall reads a file whole, up to a limit.
func readSmall(fsys fs.FS, p string, limit int64) ([]byte, error) {
	f, err := fsys.Open(p)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", p, err)
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", p, err)
	}
	if int64(len(b)) > limit {
		return nil, apperr.New(apperr.TooLarge, "make it smaller", "is larger than %d KiB", limit>>10).At(p)
	}
	return b, nil
}

// hashFiles reads every file once: for its hash, and to look at test data.
func (im *importer) hashFiles() error {
	tolerant := map[string]bool{} // answers compared with a tolerance
	data := map[string]bool{}
	for _, t := range im.m.Tests {
		data[t.Input], data[t.Answer] = true, true
		o := im.m.Checker.Tokens
		if t.Tokens != nil {
			o = *t.Tokens
		}
		tolerant[t.Answer] = im.m.Checker.Kind == problem.CheckerTokens && o.FloatAbsolute+o.FloatRelative != ""
	}
	var bom, crlf, mixed sample
	buf := make([]byte, 256<<10)
	fsys := WithInputs(im.fsys, im.m)
	for _, p := range im.files.paths {
		f, look, err := im.hashFile(fsys, p, buf)
		if err != nil {
			return err
		}
		im.m.Files = append(im.m.Files, f)
		if data[p] && look.bom {
			bom.add(p)
		}
		if data[p] && look.crlf {
			crlf.add(p)
		}
		if tolerant[p] && look.integer && look.fraction {
			mixed.add(p)
		}
	}
	if bom.n > 0 {
		im.warn.add("a byte order mark starts %s; programs will read it as part of the first word", &bom)
	}
	if crlf.n > 0 {
		im.warn.add("Windows line ends (CRLF) in %s; programs that read whole lines will see the CR", &crlf)
	}
	if mixed.n > 0 {
		im.warn.add("integers and fractions are mixed in %s; with a tolerance, the integers are compared with it too", &mixed)
	}
	return nil
}

func (im *importer) hashFile(fsys fs.FS, p string, buf []byte) (problem.File, *look, error) {
	in, err := fsys.Open(p)
	if err != nil {
		return problem.File{}, nil, fmt.Errorf("read %s: %w", p, err)
	}
	h, look := sha256.New(), &look{}
	n, err := io.CopyBuffer(io.MultiWriter(h, look), ctxReader{im.ctx, in}, buf)
	if err := errors.Join(err, in.Close()); err != nil {
		return problem.File{}, nil, fmt.Errorf("read %s: %w", p, err)
	}
	look.endToken()
	return problem.File{Path: p, SizeBytes: n, SHA256: hex.EncodeToString(h.Sum(nil)), Executable: im.files.exec[p]}, look, nil
}

// look sees what setters want to know of a data file while it goes by.
type look struct {
	n                 int
	head              [3]byte
	last              byte
	bom, crlf         bool
	integer, fraction bool
	token             tokenKind
}

// tokenKind is what the token that is being read can still be.
type tokenKind uint8

const (
	tokenNone tokenKind = iota
	tokenInteger
	tokenFraction
	tokenOther
)

func (l *look) Write(p []byte) (int, error) {
	for _, c := range p[:min(len(p), max(0, 3-l.n))] {
		l.head[l.n] = c
		l.n++
	}
	l.bom = l.n == 3 && string(l.head[:]) == "\xef\xbb\xbf"
	if !l.crlf {
		l.crlf = l.last == '\r' && len(p) > 0 && p[0] == '\n' || bytes.Contains(p, []byte("\r\n"))
	}
	if len(p) > 0 {
		l.last = p[len(p)-1]
	}
	if l.integer && l.fraction {
		return len(p), nil
	}
	for _, c := range p {
		switch {
		case c == ' ' || '\t' <= c && c <= '\r':
			l.endToken()
		case '0' <= c && c <= '9' || c == '-' || c == '+':
			if l.token == tokenNone {
				l.token = tokenInteger
			}
		case (c == '.' || c == 'e' || c == 'E') && l.token == tokenInteger, c == '.' && l.token == tokenNone:
			l.token = tokenFraction
		default:
			l.token = tokenOther
		}
	}
	return len(p), nil
}

func (l *look) endToken() {
	l.integer = l.integer || l.token == tokenInteger
	l.fraction = l.fraction || l.token == tokenFraction
	l.token = tokenNone
}

// warnings collects what the setter should know.
type warnings struct{ list []string }

// maxWarnings bounds them: a package of thousands of odd files gets a list
// that somebody can read.
const maxWarnings = 50

func (w *warnings) add(format string, args ...any) {
	switch s := fmt.Sprintf(format, args...); {
	case len(w.list) < maxWarnings:
		w.list = append(w.list, strings.ToValidUTF8(s, "\ufffd"))
	case len(w.list) == maxWarnings:
		w.list = append(w.list, "more warnings were left out")
	}
}

// sample names the first few of many things.
type sample struct {
	names []string
	n     int
}

func (s *sample) add(name string) {
	if s.n++; len(s.names) < 5 {
		s.names = append(s.names, name)
	}
}

func (s *sample) String() string {
	text := strings.Join(s.names, ", ")
	if more := s.n - len(s.names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// ctxReader ends a long read when its context ends.
type ctxReader struct {
	ctx context.Context //nolint:containedctx // lives for one file
	r   io.Reader
}

func (c ctxReader) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}
