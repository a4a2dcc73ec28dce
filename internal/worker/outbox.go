package worker

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gavel-oj/gavel/gavelapi"
)

// entry is a finished result on its way to the arbiter.
type entry struct {
	LeaseToken   string          `json:"lease_token"`
	JobID        int64           `json:"job_id"`
	LeaseGen     int64           `json:"lease_gen"`
	SubmissionID int64           `json:"submission_id"`
	TTLMS        int64           `json:"ttl_ms,omitempty"` // of the lease
	Report       gavelapi.Report `json:"report"`
}

// outbox keeps results on disk from before they are first reported until the
// arbiter has answered them. One file each, named for the lease token:
//
//	gavel-outbox 1 <sha256 of the rest>\n
//	{"lease_token":…}
//
// A file is complete or it is not an entry; anything else found here is moved
// to bad/, never deleted, never sent.
type outbox struct {
	dir string
	log *slog.Logger
}

const (
	outboxMagic  = "gavel-outbox 1 "
	outboxSuffix = ".result"
	badDir       = "bad"
	// maxEntryBytes bounds what a scan reads into memory.
	maxEntryBytes = 64 << 20
)

func openOutbox(dir string, log *slog.Logger) (*outbox, error) {
	if err := os.MkdirAll(filepath.Join(dir, badDir), 0o700); err != nil {
		return nil, fmt.Errorf("make outbox: %w", err)
	}
	return &outbox{dir: dir, log: log}, nil
}

// put makes e durable. Putting the same lease again replaces it.
func (o *outbox) put(e entry) error {
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	sum := sha256.Sum256(body)
	head := outboxMagic + hex.EncodeToString(sum[:]) + "\n"
	if err := writeFile(filepath.Join(o.dir, entryName(e.LeaseToken)), append([]byte(head), body...)); err != nil {
		return fmt.Errorf("write result to outbox: %w", err)
	}
	return nil
}

// remove forgets an answered entry. One that was never written is no error.
func (o *outbox) remove(token string) error {
	err := os.Remove(filepath.Join(o.dir, entryName(token)))
	if err == nil {
		err = syncDir(o.dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// refuse sets an entry aside that the arbiter will never take.
func (o *outbox) refuse(token, why string) {
	name := entryName(token)
	if _, err := os.Lstat(filepath.Join(o.dir, name)); err == nil {
		o.quarantine(name, why)
	}
}

// scan returns the entries that a former process left, and sets everything
// else aside.
func (o *outbox) scan() ([]entry, error) {
	names, err := os.ReadDir(o.dir)
	if err != nil {
		return nil, fmt.Errorf("read outbox: %w", err)
	}
	var found []entry
	seen := map[string]bool{}
	// Names sort so that "x.result" comes before "x.result.tmp": a finished
	// file wins over an unfinished one of the same lease.
	for _, d := range names {
		name := d.Name()
		if name == badDir {
			continue
		}
		e, err := o.read(name)
		whole := strings.TrimSuffix(name, tmpSuffix)
		switch {
		case err != nil && whole != name:
			// What a crash in the middle of writing leaves. The result was
			// not finished then, so nothing is lost with it.
			o.log.Warn("unfinished outbox file removed", "file", name)
			err = os.Remove(filepath.Join(o.dir, name))
			if err != nil {
				o.log.Warn("outbox file cannot be removed", "file", name, "error", err)
			}
		case err != nil:
			o.quarantine(name, err.Error())
		case entryName(e.LeaseToken) != whole:
			o.quarantine(name, "its name is not that of the lease in it")
		case seen[e.LeaseToken]:
			o.quarantine(name, "another file has the result of the same lease")
		default:
			seen[e.LeaseToken] = true
			found = append(found, e)
			if whole != name { // complete, only its renaming was missed
				if err := os.Rename(filepath.Join(o.dir, name), filepath.Join(o.dir, whole)); err != nil {
					o.log.Warn("outbox file cannot be renamed", "file", name, "error", err)
				}
			}
		}
	}
	return found, nil
}

func (o *outbox) read(name string) (entry, error) {
	var e entry
	path := filepath.Join(o.dir, name)
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return e, err
	case !info.Mode().IsRegular():
		return e, errors.New("not a regular file")
	case !strings.HasSuffix(strings.TrimSuffix(name, tmpSuffix), outboxSuffix):
		return e, errors.New("not a file of the outbox")
	case info.Size() == 0:
		return e, errors.New("empty")
	case info.Size() > maxEntryBytes:
		return e, errors.New("too large")
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return e, err
	}
	head, body, ok := bytes.Cut(b, []byte("\n"))
	want, magic := strings.CutPrefix(string(head), outboxMagic)
	sum := sha256.Sum256(body)
	switch {
	case !ok || !magic:
		return e, errors.New("not in the outbox's format")
	case want != hex.EncodeToString(sum[:]):
		return e, errors.New("torn or damaged: its checksum does not match")
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return e, fmt.Errorf("not readable: %w", err)
	}
	if e.LeaseToken == "" || !e.Report.One() {
		return e, errors.New("not a result")
	}
	return e, nil
}

// quarantine moves a file to bad/ under a name that is free there.
func (o *outbox) quarantine(name, why string) {
	from := filepath.Join(o.dir, name)
	to := filepath.Join(o.dir, badDir, name)
	for n := 1; ; n++ {
		if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			break
		}
		to = filepath.Join(o.dir, badDir, name+"."+strconv.Itoa(n))
	}
	if err := os.Rename(from, to); err != nil {
		o.log.Error("bad outbox file cannot be set aside", "file", name, "reason", why, "error", err)
		return
	}
	o.log.Error("bad outbox file set aside", "file", name, "moved_to", to, "reason", why)
}

// entryName is the file name for a lease. Tokens come from outside and must
// not choose paths.
func entryName(token string) string {
	plain := len(token) > 0 && len(token) <= 64 && !strings.ContainsFunc(token, func(r rune) bool {
		return !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '-')
	})
	if plain {
		return token + outboxSuffix
	}
	sum := sha256.Sum256([]byte(token))
	return "h" + hex.EncodeToString(sum[:]) + outboxSuffix
}
