package serve

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/auth"
)

// AdminToken returns the administrator's token in file; one that is missing or
// no longer good is made anew and written there, readable by its owner only.
func (s *Server) AdminToken(ctx context.Context, file string) (string, error) {
	raw, err := os.ReadFile(file)
	token := strings.TrimSpace(string(raw))
	if err == nil {
		if p, err := s.Arbiter.Authenticate(ctx, token); err == nil && p.Kind == auth.Admin {
			return token, nil
		}
	}
	if token, err = s.Arbiter.AdminToken(ctx, "file "+file); err != nil {
		return "", err
	}
	if err := writePrivate(file, token+"\n"); err != nil {
		return "", apperr.Wrap(err, apperr.Forbidden, "make its directory writable", "the administrator's token cannot be written to %s", file)
	}
	return token, nil
}

// writePrivate replaces a file that only its owner may read.
func writePrivate(file, text string) error {
	tmp, err := os.CreateTemp(filepath.Dir(file), ".token-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // fails when it was renamed, as it should be
	_, err = tmp.WriteString(text)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}
