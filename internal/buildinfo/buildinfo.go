// Package buildinfo says which build this is. The Makefile writes Version and
// Commit at link time; a program built without it says so.
package buildinfo

import (
	"fmt"
	"runtime"
)

// What `gavel version`, the user agent and the gavel_build_info metric show.
var (
	Version = "dev"     // git describe: a tag, or the commit's short name
	Commit  = "unknown" // the whole name of the commit
	Go      = runtime.Version()
)

// String is one line for people: program is the name of the running command.
func String(program string) string {
	return fmt.Sprintf("%s %s (commit %.12s, %s, %s/%s)", program, Version, Commit, Go, runtime.GOOS, runtime.GOARCH)
}
