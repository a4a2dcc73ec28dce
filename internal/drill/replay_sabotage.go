package drill

import (
	"fmt"
	"time"

	"github.com/gavel-oj/gavel/internal/timeline"
)

// spoilEdge is the counter-test of edge pull: it puts back what gavel left out.
func (a *act) spoilEdge() {
	if a.story.Name == september17.Name {
		// Yield to a preferred worker for as long as it has been seen at all.
		a.exec("update lease_settings set yield = '1 hour', fresh = '1 hour'")
		return
	}
	a.exec(fmt.Sprintf(`alter function edge_claim(jsonb) rename to edge_claim_alone;
create function edge_claim(request jsonb) returns jsonb language plpgsql security definer as $$
begin
  perform pg_advisory_xact_lock(%d);
  return edge_claim_alone(request);
end
$$;
alter function edge_claim(jsonb) set search_path = public, pg_temp;
alter function edge_claim(jsonb) owner to gavel_arbiter;
grant execute on function edge_claim(jsonb) to oj, gavel_edge`, claimAdvisoryLockID))
}

// keepOldLock is the sleeper's session in a claim that takes the lock and makes
// round trips: it holds the lock until the ssh server hangs up.
func (a *act) keepOldLock() {
	held := make(chan struct{})
	a.aside(func() {
		conn, err := a.db.Acquire(a.ctx)
		if err != nil {
			close(held)
			return
		}
		defer conn.Release()
		_, err = conn.Exec(a.ctx, "select pg_advisory_lock($1)", int64(claimAdvisoryLockID))
		close(held)
		if err != nil {
			return
		}
		a.wait(a.scale.of(sshSilence))
		_, _ = conn.Exec(a.ctx, "select pg_advisory_unlock($1)", int64(claimAdvisoryLockID)) // a session that ends gives it up as well
	})
	select {
	case <-held:
	case <-a.Clock.After(time.Minute):
		a.Fatalf("%s: the lock was not to be had", timeline.Edge)
	}
}
