package blob

import (
	"io/fs"
	"strings"
	"testing"
)

func TestKeysCannotLeaveTheStore(t *testing.T) {
	for _, good := range []string{"a", "packages/0a1b.tar.zst", "a/b/c", "0-_.x", strings.Repeat("k", MaxKeyBytes)} {
		if err := CheckKey(good); err != nil {
			t.Errorf("%q refused: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "/", "/etc/passwd", "..", "../x", "a/../b", "a/..", "a//b", "a/", ".tmp/x", "a/.b", `a\b`, "A", "a b", "a\x00", "a:b", "é", "-a",
		strings.Repeat("k", MaxKeyBytes+1),
	} {
		if err := CheckKey(bad); err == nil {
			t.Errorf("%q accepted", bad)
		}
	}
}

func FuzzCheckKey(f *testing.F) {
	f.Add("packages/0a.tar.zst")
	f.Add("../x")
	f.Fuzz(func(t *testing.T, key string) {
		if CheckKey(key) == nil && (!fs.ValidPath(key) || strings.Contains(key, "/.") || key[0] == '.') {
			t.Errorf("accepted %q", key)
		}
	})
}
