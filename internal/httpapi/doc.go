// Package httpapi is gavel's HTTP interface: it turns requests into calls of a
// Service and their outcomes into answers. It decides nothing about judging.
//
// What holds for every route:
//
//   - Every answer has an X-Request-Id; errors are application/problem+json
//     whose type is a page that this server serves itself (/problems/CODE).
//   - No answer and no log line repeats a value that was rejected, and no log
//     line has a token, a source or a query string.
//   - Every body has a limit and every read a deadline, so that one slow or
//     hostile client holds nothing but its own connection.
//   - A worker's call is refused with 426 for its protocol version before
//     anything else is looked at, its token included.
//
// The OpenAPI document is made from the same Go types that decode requests
// (go generate writes api/openapi.yaml; a test fails when it is stale).
package httpapi
