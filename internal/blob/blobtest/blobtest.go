// Package blobtest is the conformance suite of blob.Store: what every
// implementation, and every fake, must do.
package blobtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/gavel-oj/gavel/internal/blob"
)

// Run tests the stores that open makes. Each call of open gives an empty one,
// closed by the test's cleanup.
func Run(t *testing.T, open func(t *testing.T) blob.Store) {
	tests := map[string]func(t *testing.T, s blob.Store){
		"a blob comes back as it was put":          roundTrip,
		"an absent key is ErrNotFound":             absent,
		"a second put replaces the first":          replace,
		"delete is idempotent":                     deleteTwice,
		"keys that are none are refused":           badKeys,
		"a reader that fails leaves nothing":       readerFails,
		"a context that ends leaves nothing":       contextEnds,
		"a failed put keeps the old blob":          failedReplace,
		"a key and keys below it do not mix":       nesting,
		"writers and readers of one key get along": concurrent,
		"check leaves nothing and can be repeated": check,
		"blobs can be read from the middle":        seek,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

const key = "packages/0a1b.tar.zst"

func roundTrip(t *testing.T, s blob.Store) {
	for name, data := range map[string][]byte{
		"empty": {}, "small": []byte("hello\x00\xff\n"), "large": bytes.Repeat([]byte("0123456789abcdef"), 1<<16),
	} {
		put(t, s, "x/"+name, data)
		want(t, s, "x/"+name, data)
	}
}

func absent(t *testing.T, s blob.Store) {
	if _, _, err := s.Open(t.Context(), key); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("Open: %v", err)
	}
	if _, err := s.Stat(t.Context(), key); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("Stat: %v", err)
	}
}

func replace(t *testing.T, s blob.Store) {
	put(t, s, key, []byte("first"))
	old, _, err := s.Open(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Close() }()
	put(t, s, key, []byte("second, longer"))
	want(t, s, key, []byte("second, longer"))
	if got, err := io.ReadAll(old); err != nil || string(got) != "first" {
		t.Errorf("the reader that was open got %q, %v", got, err)
	}
}

func deleteTwice(t *testing.T, s blob.Store) {
	put(t, s, key, []byte("x"))
	for range 2 {
		if err := s.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		absent(t, s)
	}
	put(t, s, key, []byte("y"))
	want(t, s, key, []byte("y"))
}

func badKeys(t *testing.T, s blob.Store) {
	for _, k := range []string{"", "/x", "../x", "a/../../x", ".tmp/x", "a//b", "a/", "A", "a\x00b", strings.Repeat("a", blob.MaxKeyBytes+1)} {
		if err := s.Put(t.Context(), k, strings.NewReader("x")); err == nil {
			t.Errorf("Put accepts %q", k)
		}
		if f, _, err := s.Open(t.Context(), k); err == nil {
			t.Errorf("Open accepts %q", k)
			_ = f.Close()
		} else if errors.Is(err, blob.ErrNotFound) {
			t.Errorf("Open says %q is absent instead of impossible", k)
		}
		if _, err := s.Stat(t.Context(), k); err == nil {
			t.Errorf("Stat accepts %q", k)
		}
		if err := s.Delete(t.Context(), k); err == nil {
			t.Errorf("Delete accepts %q", k)
		}
	}
}

var errBroken = errors.New("broken upload")

func readerFails(t *testing.T, s blob.Store) {
	r := io.MultiReader(bytes.NewReader(make([]byte, 1<<20)), iotest.ErrReader(errBroken))
	if err := s.Put(t.Context(), key, r); !errors.Is(err, errBroken) {
		t.Errorf("Put: %v, want the reader's error in the chain", err)
	}
	absent(t, s)
}

func contextEnds(t *testing.T, s blob.Store) {
	ctx, cancel := context.WithCancelCause(t.Context())
	r := io.MultiReader(bytes.NewReader(make([]byte, 1<<20)), onRead(func() { cancel(errBroken) }), bytes.NewReader(make([]byte, 1<<20)))
	if err := s.Put(ctx, key, r); !errors.Is(err, errBroken) {
		t.Errorf("Put: %v, want the cause in the chain", err)
	}
	absent(t, s)
	// Ended just before the end of the data: still nothing.
	ctx, cancel = context.WithCancelCause(t.Context())
	if err := s.Put(ctx, key, onRead(func() { cancel(errBroken) })); !errors.Is(err, errBroken) {
		t.Errorf("Put: %v, want the cause in the chain", err)
	}
	absent(t, s)
}

func failedReplace(t *testing.T, s blob.Store) {
	put(t, s, key, []byte("old"))
	if err := s.Put(t.Context(), key, iotest.ErrReader(errBroken)); err == nil {
		t.Fatal("no error")
	}
	want(t, s, key, []byte("old"))
}

func nesting(t *testing.T, s blob.Store) {
	put(t, s, "a/b", []byte("x"))
	for _, k := range []string{"a", "a/b/c"} {
		if _, err := s.Stat(t.Context(), k); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("Stat %s: %v", k, err)
		}
		if _, _, err := s.Open(t.Context(), k); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("Open %s: %v", k, err)
		}
		if err := s.Delete(t.Context(), k); err != nil {
			t.Errorf("Delete %s: %v", k, err)
		}
	}
	want(t, s, "a/b", []byte("x"))
}

func concurrent(t *testing.T, s blob.Store) {
	put(t, s, key, bytes.Repeat([]byte{'a'}, 1<<16))
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			data := bytes.Repeat([]byte{byte('b' + i)}, 1<<16)
			for range 5 {
				if err := s.Put(t.Context(), key, bytes.NewReader(data)); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for range 20 {
				if err := wholeBlob(t.Context(), s); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// wholeBlob reads key and fails unless it is one writer's data alone.
func wholeBlob(ctx context.Context, s blob.Store) error {
	f, size, err := s.Open(ctx, key)
	if err != nil {
		return err
	}
	got, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if int64(len(got)) != size || size != 1<<16 || bytes.Count(got, got[:1]) != len(got) {
		return fmt.Errorf("torn blob of %d bytes", len(got))
	}
	return nil
}

func check(t *testing.T, s blob.Store) {
	for range 2 {
		if err := s.Check(t.Context()); err != nil {
			t.Error(err)
		}
	}
	absent(t, s)
}

func seek(t *testing.T, s blob.Store) {
	put(t, s, key, []byte("0123456789"))
	f, size, err := s.Open(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Seek(-3, io.SeekEnd); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(f); err != nil || string(got) != "789" || size != 10 {
		t.Errorf("got %q of %d bytes, %v", got, size, err)
	}
}

func put(t *testing.T, s blob.Store, key string, data []byte) {
	t.Helper()
	if err := s.Put(t.Context(), key, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, s blob.Store, key string, data []byte) {
	t.Helper()
	f, size, err := s.Open(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, data) || size != int64(len(data)) {
		t.Errorf("%s: %d bytes (said to be %d), want %d", key, len(got), size, len(data))
	}
	if size, err := s.Stat(t.Context(), key); err != nil || size != int64(len(data)) {
		t.Errorf("Stat %s: %d, %v; want %d", key, size, err, len(data))
	}
}

// onRead is an empty reader with a side effect.
type onRead func()

func (f onRead) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}
