// Package gavelapi holds the wire types of gavel's HTTP API, for sites and for
// workers. It imports the standard library only, so that any Go program can
// use it. The committed api/openapi.yaml describes the same types.
//
// Rules that hold throughout: durations and sizes are integers whose unit is
// in the name (_us, _ms, _bytes); instants are RFC 3339 in UTC from the
// database's clock; unknown fields are ignored by both sides; bytes that may
// not be UTF-8 travel as base64 ([]byte). IDs are positive integers; they
// order things and carry no authority.
package gavelapi
