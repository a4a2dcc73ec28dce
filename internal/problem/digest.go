package problem

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// digestPrefix names the hash, so that another one can be told apart later.
const digestPrefix = "sha256:"

// Encode returns the canonical JSON of m, the bytes of manifest.json.
func Encode(m *Manifest) []byte {
	b, err := json.Marshal(m)
	if err != nil {
		// A Manifest holds only strings, integers, booleans, slices and a
		// map with string keys: encoding/json cannot fail on those.
		panic(fmt.Sprintf("problem: encode manifest: %v", err))
	}
	return append(b, '\n')
}

// Digest returns the name of the package that m describes: "sha256:" and 64
// hexadecimal digits.
func Digest(m *Manifest) string { return digestOf(Encode(m)) }

func digestOf(manifest []byte) string {
	sum := sha256.Sum256(manifest)
	return digestPrefix + hex.EncodeToString(sum[:])
}

// DigestHex returns the hexadecimal part of a well-formed digest, which is
// safe as a file name or a blob key, and false for anything else.
func DigestHex(digest string) (string, bool) {
	h, ok := strings.CutPrefix(digest, digestPrefix)
	if !ok || !isSHA256Hex(h) {
		return "", false
	}
	return h, true
}

// ArchiveName is the file name of a package's archive, wherever archives are kept.
func ArchiveName(digest string) (string, bool) {
	hex, ok := DigestHex(digest)
	return hex + ".tar.zst", ok
}

func isSHA256Hex(s string) bool {
	if len(s) != 2*sha256.Size {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// Decode reads a manifest and validates it. The digest is that of the bytes
// given, not of a re-encoding: a later gavel may write fields that this one
// does not know, and the name must hold all the same.
func Decode(b []byte) (*Manifest, string, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	var m Manifest
	if err := dec.Decode(&m); err != nil {
		return nil, "", fmt.Errorf("%s is not readable: %w", ManifestName, err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, "", fmt.Errorf("%s has data after its end", ManifestName)
	}
	if err := m.Validate(); err != nil {
		return nil, "", err
	}
	return &m, digestOf(b), nil
}
