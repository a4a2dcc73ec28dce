package httpapi

import (
	"crypto/sha256"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
)

// KeyInput is the header that makes a request safe to repeat.
type KeyInput struct {
	Key string `header:"Idempotency-Key" maxLength:"255" doc:"makes repeating safe for 24 hours"`

	empty bool // the header is there and holds nothing
}

// Resolve implements huma.Resolver: to the field above, a header that is empty
// looks like one that is missing.
func (in *KeyInput) Resolve(ctx huma.Context) []error {
	ctx.EachHeader(func(name, value string) {
		if strings.EqualFold(name, gavelapi.IdempotencyKeyHeader) && strings.TrimSpace(value) == "" {
			in.empty = true
		}
	})
	return nil
}

// checkKey wants what the header's draft wants: printable ASCII. It refuses a
// key that protects nothing: an empty one is a variable that was not set or a
// command that failed, and its sender believes in it.
func (in *KeyInput) checkKey() error {
	if in.empty {
		return apperr.New(apperr.Malformed, "send a key of your own, such as a random UUID, or leave the header out", "the Idempotency-Key is empty").At("header.Idempotency-Key")
	}
	if strings.ContainsFunc(in.Key, func(r rune) bool { return r < ' ' || r > '~' }) {
		return apperr.New(apperr.Invalid, "a random UUID is a good key", "the key must be printable ASCII").At("header.Idempotency-Key")
	}
	return nil
}

// hashOf tells bodies apart that come with the same key.
func hashOf(body []byte) []byte {
	sum := sha256.Sum256(body)
	return sum[:]
}

// created is the answer to a request that makes something: 201, or 200 when an
// earlier one with its key did.
type created[T any] struct {
	Status   int
	Location string `header:"Location"`
	Replayed string `header:"Idempotency-Replayed" doc:"true when an earlier request with this key made it"`
	Body     T
}

func createdAt[T any](location string, body T, replayed bool) *created[T] {
	if replayed {
		return &created[T]{Status: http.StatusOK, Location: location, Replayed: "true", Body: body}
	}
	return &created[T]{Status: http.StatusCreated, Location: location, Body: body}
}
