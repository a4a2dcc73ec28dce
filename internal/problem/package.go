package problem

// Package is an unpacked, verified package on this machine.
type Package struct {
	Manifest Manifest
	Digest   string // "sha256:…"
	Dir      string // absolute directory that holds the files; read-only by convention
}
