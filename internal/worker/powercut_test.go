package worker

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/internal/testkit"
)

// A result is reported only after it would survive a power cut: its content,
// its name and the folder are on the disk when put returns. The same file
// written without syncing is not there, which shows that the cut is one.
func TestASavedResultSurvivesAPowerCut(t *testing.T) {
	dir, cut := testkit.PowerCut(t)
	o, err := openOutbox(filepath.Join(dir, "outbox"), discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.put(testEntry("first")); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(testEntry("unsynced"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "outbox", "unsynced.result"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	want := func(after string, tokens ...string) {
		t.Helper()
		left, err := openOutbox(filepath.Join(after, "outbox"), discard)
		if err != nil {
			t.Fatal(err)
		}
		found, err := left.scan()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range found {
			got = append(got, e.LeaseToken)
			if d := cmp.Diff(testEntry(e.LeaseToken), e); d != "" {
				t.Error(d)
			}
		}
		if d := cmp.Diff(tokens, got); d != "" {
			t.Errorf("after the power cut (-want +got): %s", d)
		}
	}
	want(cut(), "first")

	// An answered result stays forgotten, so that it is not reported again.
	if err := o.put(testEntry("second")); err != nil {
		t.Fatal(err)
	}
	if err := o.remove("first"); err != nil {
		t.Fatal(err)
	}
	want(cut(), "second")
}
