package up

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/gavel-oj/gavel/examples"
	"github.com/gavel-oj/gavel/internal/buildinfo"
)

// mark remembers in the data directory that a build got every declared verdict
// of some examples: the next start of the same build on the same data need not
// do it again. Losing it costs a repetition, no more.
type mark struct{ file, text string }

func newMark(dir string, problems []examples.Problem) mark {
	h := sha256.New()
	fmt.Fprintf(h, "%s %s\n", buildinfo.Version, buildinfo.Commit)
	for _, p := range problems {
		// An unreadable example fails where it is imported, and is then not marked.
		_ = fs.WalkDir(p.FS, ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			raw, err := fs.ReadFile(p.FS, path)
			fmt.Fprintf(h, "%s %s %x\n", p.Name, path, sha256.Sum256(raw))
			return err
		})
	}
	return mark{file: filepath.Join(dir, "examples-judged"), text: hex.EncodeToString(h.Sum(nil)) + "\n"}
}

func (m mark) set() bool {
	raw, err := os.ReadFile(m.file)
	return err == nil && string(raw) == m.text
}

func (m mark) leave(log *slog.Logger) {
	if err := os.WriteFile(m.file, []byte(m.text), 0o600); err != nil {
		log.Warn("cannot remember that the examples were judged; the next start judges them again", "error", err)
	}
}
