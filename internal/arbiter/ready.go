package arbiter

import (
	"context"
	"fmt"
	"time"
)

// Ready implements httpapi.Service. It looks at the work path itself: who
// leads, whether the database takes writes, whether the dispatch loop turns.
func (a *Arbiter) Ready(ctx context.Context) (map[string]string, bool) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	checks := map[string]string{"leader": "ok", "database": "ok", "dispatch": "ok"}
	var readOnly bool
	if err := a.db.Pool.QueryRow(ctx, "select pg_is_in_recovery() or current_setting('transaction_read_only')::bool").Scan(&readOnly); err != nil {
		checks["database"] = "not reachable"
	} else if readOnly {
		checks["database"] = "read-only"
	} else if a.db.DiskFull(ctx) {
		checks["database"] = "its disk is full"
	}
	if l := a.current.Load(); l == nil {
		checks["leader"], checks["dispatch"] = "standing by", "standing by"
	} else {
		if !l.mayAnswer() {
			checks["leader"] = "leadership not renewed in time"
		}
		if away := a.clock.Now().Sub(*l.loopedAt.Load()); away > a.cfg.Alarms.Stuck {
			checks["dispatch"] = fmt.Sprintf("the dispatch loop has not come round for %.0f s", away.Seconds())
		}
	}
	for _, c := range checks {
		if c != "ok" {
			return checks, false
		}
	}
	return checks, true
}
