// Package client speaks gavel's HTTP API: a site's calls (submissions,
// problems, workers) and a worker's (claim, heartbeat, result, release,
// packages). It imports gavelapi and a backoff library, nothing else of gavel.
//
// Errors come in three kinds, and callers tell them apart with errors.As:
//
//   - *gavelapi.Problem: the arbiter answered and refused, with a status, a
//     reason for people and a hint.
//   - *Unreachable: no usable answer came. The request may or may not have
//     taken effect, so only calls that are safe to repeat may be repeated.
//   - anything else: the caller's own context ended, or the call could not be
//     made at all (a bad URL, a body that cannot be encoded).
//
// No method repeats a call by itself. Loops that want that use Retry, which
// grows its delay, spreads it at random and never asks earlier than the
// arbiter's Retry-After, so that many clients do not return in one wave.
//
// A Client is safe for concurrent use.
package client
