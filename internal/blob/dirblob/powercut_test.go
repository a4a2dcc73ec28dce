package dirblob

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/gavel-oj/gavel/internal/testkit"
)

// A package is published only when its blob would survive a power cut, in a
// folder that is new. A file that nobody synced is not there afterwards, which
// shows that the cut is one.
func TestABlobSurvivesAPowerCut(t *testing.T) {
	dir, cut := testkit.PowerCut(t)
	s := open(t, filepath.Join(dir, "blobs"))
	data := bytes.Repeat([]byte("gavel"), 100_000)
	put := func(content []byte) {
		t.Helper()
		if err := s.Put(t.Context(), "packages/new/a", bytes.NewReader(content)); err != nil {
			t.Fatal(err)
		}
	}
	after := func(content []byte) *Store {
		t.Helper()
		left := open(t, filepath.Join(cut(), "blobs"))
		r, size, err := left.Open(t.Context(), "packages/new/a")
		if err != nil {
			t.Fatalf("after the power cut: %v", err)
		}
		defer r.Close()
		if got, err := io.ReadAll(r); err != nil || size != int64(len(content)) || !bytes.Equal(got, content) {
			t.Errorf("after the power cut: %d bytes (size %d) of %d, %v", len(got), size, len(content), err)
		}
		return left
	}
	put(data)
	if err := os.WriteFile(filepath.Join(dir, "blobs", "packages", "unsynced"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	left := after(data)
	if r, _, err := left.Open(t.Context(), "packages/unsynced"); err == nil {
		defer r.Close()
		if got, err := io.ReadAll(r); err == nil && bytes.Equal(got, data) {
			t.Error("a file that was not synced survived: the cut is none")
		}
	}
	put([]byte("next"))
	after([]byte("next"))
}
