package arbiter

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// stored is a part of a row that is kept as JSON, and where it goes.
type stored struct {
	name string
	raw  json.RawMessage
	into any // a pointer
}

// readStored decodes parts of a row. What cannot be read is left empty and named,
// with the row and what to do: one bad row must hide neither itself nor others.
func readStored(row, hint string, parts ...stored) (unreadable string) {
	var bad []string
	for _, p := range parts {
		if p.raw == nil {
			continue
		}
		if err := json.Unmarshal(p.raw, p.into); err != nil {
			reflect.ValueOf(p.into).Elem().SetZero()
			bad = append(bad, fmt.Sprintf("its %s (%v)", p.name, err))
		}
	}
	if bad == nil {
		return ""
	}
	return fmt.Sprintf("of %s cannot be read: %s; %s", row, strings.Join(bad, ", "), hint)
}
