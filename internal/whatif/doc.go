// Package whatif replays a trace of arrivals against a fleet under a policy of
// dispatch, in virtual time, and says how long everybody waited. The policy of
// the product is internal/dispatch itself; beside it stand first come, first
// served, and the two ways of an older design: workers that claim for
// themselves under one lock, and workers that yield to preferred ones. It does
// no I/O but reading traces and fleets that it is given.
package whatif
