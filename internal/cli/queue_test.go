package cli

import (
	"encoding/json"
	"testing"

	"github.com/gavel-oj/gavel/gavelapi"
)

func TestTheAuditTableSaysWhatWasSet(t *testing.T) {
	for details, want := range map[string]string{
		``:   "",
		`{}`: "",
		`{"rank": 3, "note": "under the roof", "reason": "moved"}`:  "note under the roof, rank 3",
		`{"tags": ["exam"], "lanes": null, "pool": "attic"}`:        `pool attic, tags ["exam"]`,
		`{"action": "drain", "note": "moved", "for_seconds": 7200}`: "action drain, for_seconds 7200",
		`["what older versions wrote"]`:                             `["what older versions wrote"]`,
	} {
		e := gavelapi.AuditEntry{Reason: "moved", Details: json.RawMessage(details)}
		if got := whatWasSet(e); got != want {
			t.Errorf("%s: %q, want %q", details, got, want)
		}
	}
}
