// Package arbiter is the shell around the pure core: it leads, dispatches,
// keeps leases, records results and serves the site's calls. Facts are in
// Postgres; what is in memory here can be rebuilt by reading.
//
//	        campaign (lock free, or row expired and its session ended)
//	standby ────────────────────────────────▶ leading (term n)
//	   ▲                                        │  dispatch loop: match → grant batch → answer
//	   │     renewal failed, row not ours,      │  batches: heartbeats, results
//	   └──── orderly stop ──────────────────────┘  reclaim: on the next expiry, full sweep
//
// What is trusted: the database's now() for every lease time; the conditions
// in internal/store/queries/leases.sql for every change. What is not: that we
// still lead (each granting and reclaiming write carries the term, I8), that a
// commit whose answer was lost did not happen (memory is rebuilt), that a
// worker's name proves that it holds a job (its token does, I2).
//
// What happens on failure: without the database every worker call is answered
// 503, workers go on and keep their results. A leader that is killed, frozen
// or cut off is replaced after the row's validity; the new one extends every
// live lease once, so judgings in flight are not lost.
package arbiter
