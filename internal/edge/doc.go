// Package edge is a worker's way to its work straight through the database,
// without an arbiter: the calls of the worker protocol, each one function of
// the database (internal/store/functions) and one round trip. The agent that makes the
// calls is the one of gavel-worker (internal/worker): slots, outbox, cache,
// heartbeats and hand-back are the same, and so are the rows that come of it.
//
//	agent ──Claim──────▶ poll twice a second ─▶ edge_claim     run lane, then three in turn,
//	      ──Heartbeat──▶ every 5 s ──────────▶ edge_heartbeat  one savepoint a lane
//	      ──Result─────▶ ownership gate ─────▶ edge_result
//	      ──Release────▶ attempt refunded ───▶ edge_release
//	Keep ───────────────▶ every 10 s ────────▶ edge_reclaim    by every worker, for all
//
// What is trusted: the functions, which check worker, token and generation of
// every write (I2), count slots (I4) and hand out nothing else (I9). What is
// not: this program. Its database login can call these functions and nothing
// more.
//
// A client that stops at any point holds no lock: each call is a statement and
// a transaction of its own, which the server ends without the client. What a
// worker shares with others is the jobs alone, and a job that is locked is
// stepped over; there is no advisory lock and no shared row.
//
// Whether a worker is able to work is judged by the database from what it did:
// only a round that could look into every lane counts as looking for work. A
// worker that fails every claim, and whose heartbeats go on, is waited for by
// nobody.
//
// On failure: without the database claims pause, longer and longer, running
// work goes on, results wait in the outbox.
package edge
