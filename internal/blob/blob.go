// Package blob stores immutable chunks of bytes under keys: package archives,
// and later sources and outputs that are too large for the database. A Store
// is one way to keep them (dirblob: a directory); blobtest is the conformance
// suite that each one must pass.
package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// ErrNotFound is in the chain of errors about a key that holds nothing.
var ErrNotFound = errors.New("no such blob")

// MaxKeyBytes bounds a key.
const MaxKeyBytes = 512

// Store keeps blobs. All methods are safe for concurrent use, by several
// processes too.
type Store interface {
	// Put stores all of r under key. It is atomic and durable: when it
	// returns nil, Open gives exactly these bytes, also after a power cut;
	// when it fails, or r fails, or ctx ends, the key holds what it held
	// before. A second Put of a key replaces the first; readers that have the
	// old one open keep it. A failed Put may be retried.
	Put(ctx context.Context, key string, r io.Reader) error
	// Open returns the blob, positioned at its start, and its size. The
	// caller closes it. An absent key is ErrNotFound, which is permanent
	// until somebody puts it.
	Open(ctx context.Context, key string) (blob io.ReadSeekCloser, sizeBytes int64, err error)
	// Stat returns the size without opening; ErrNotFound when absent.
	Stat(ctx context.Context, key string) (sizeBytes int64, err error)
	// Delete removes the key; to delete an absent one is no error.
	Delete(ctx context.Context, key string) error
	// Check writes, reads and removes a small blob. Its error is one line
	// for an operator, with what to do.
	Check(ctx context.Context) error
}

// CheckKey reports why key cannot be a key, nil when it can. Keys look like
// "packages/0a1b2c.tar.zst": elements of lower-case letters, digits, '.', '_'
// and '-' that start with a letter or digit, joined by '/'. So no key leaves
// the store, hides in it, or differs from another by letter case only.
func CheckKey(key string) error {
	if key == "" || len(key) > MaxKeyBytes {
		return fmt.Errorf("blob key %.40q: must have 1 to %d bytes", key, MaxKeyBytes)
	}
	start := true
	for i := range len(key) {
		switch c := key[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
			start = false
		case c == '/' && !start:
			start = true
		case (c == '.' || c == '_' || c == '-') && !start:
		default:
			return fmt.Errorf("blob key %.40q: unexpected %q at byte %d", key, c, i)
		}
	}
	if start {
		return fmt.Errorf("blob key %.40q: must not end with '/'", key)
	}
	return nil
}
