// Package auth says who may call the API: the kinds of tokens, how they are
// made, how they are stored, and the principal that a valid one stands for.
// It has no I/O besides reading random bytes; looking tokens up is the
// store's business, and what a principal may do is the API's.
//
// A token is a prefix that names its kind, so that people and secret scanners
// recognise one, and 26 base32 characters (130 bits) from crypto/rand. Only
// its SHA-256 is stored: with that much entropy a slow hash adds nothing, and
// a leaked table does not let anybody in.
package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"strings"
)

// Kind is what a token or a principal is for.
type Kind string

// The kinds. Invitation is a token only: it is traded for a worker's token
// and never authenticates a call.
const (
	Admin      Kind = "admin"
	Site       Kind = "site"
	Worker     Kind = "worker"
	Invitation Kind = "invitation"
)

// prefixes are part of the token format; they never change their meaning.
var prefixes = map[Kind]string{
	Admin:      "gvl_a_",
	Site:       "gvl_u_",
	Worker:     "gvl_w_",
	Invitation: "gvl_i_",
}

// textLen is the length of crypto/rand.Text, which the format fixes.
const textLen = 26

// Principal is who makes a call. WorkerID and WorkerName are set for workers
// only.
type Principal struct {
	Kind       Kind
	TokenID    int64
	WorkerID   int64
	WorkerName string
}

// LogValue names the principal without anything secret.
func (p Principal) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("kind", string(p.Kind)), slog.Int64("token_id", p.TokenID)}
	if p.Kind == Worker {
		attrs = append(attrs, slog.String("worker", p.WorkerName))
	}
	return slog.GroupValue(attrs...)
}

// NewToken makes a token of a kind and the hash under which it is stored. It
// panics on a kind that does not exist, which is a programmer's mistake.
func NewToken(kind Kind) (secret string, hash [32]byte) {
	prefix, ok := prefixes[kind]
	if !ok {
		panic("auth: no token format for kind " + string(kind))
	}
	secret = prefix + rand.Text()
	return secret, Hash(secret)
}

// Hash is what is stored and looked up instead of the token.
func Hash(secret string) [32]byte { return sha256.Sum256([]byte(secret)) }

// KindOf reads the kind off a token and says whether the whole has the form of
// one. It proves nothing: it spares the database a lookup of nonsense and lets
// an error name the kind that was given.
func KindOf(secret string) (Kind, bool) {
	for kind, prefix := range prefixes {
		if text, ok := strings.CutPrefix(secret, prefix); ok {
			return kind, len(text) == textLen && strings.Trim(text, base32Alphabet) == ""
		}
	}
	return "", false
}

const base32Alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"

// Secret is a string that does not show itself in logs, errors, %v, %#v or
// JSON values (as the key of a map encoding/json would print it: do not). Reveal
// is the way to it, so its uses can be found by name.
type Secret string

const redacted = "[redacted]"

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String implements fmt.Stringer.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// GoString implements fmt.GoStringer.
func (s Secret) GoString() string { return fmt.Sprintf("auth.Secret(%q)", s.String()) }

// Format implements fmt.Formatter, which also covers %x, %q and %d.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText implements encoding.TextMarshaler.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
