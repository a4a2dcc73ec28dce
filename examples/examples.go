// Package examples holds the example problems that `gavel up` imports and
// judges: six packages of the ICPC formats, each with submissions in C, C++
// and Python whose verdicts are declared.
package examples

import (
	"embed"
	"fmt"
	"io/fs"
)

// "all:" because of .timelimit, which Go would leave out.
//
//go:embed all:problems
var files embed.FS

// Problem is one example.
type Problem struct {
	Name string // short name, the name of its directory
	FS   fs.FS  // the package, for intake.OpenFS
}

// Problems returns the examples, by name.
func Problems() ([]Problem, error) {
	entries, err := files.ReadDir("problems")
	if err != nil {
		return nil, fmt.Errorf("list examples: %w", err)
	}
	ps := make([]Problem, len(entries))
	for i, e := range entries {
		sub, err := fs.Sub(files, "problems/"+e.Name())
		if err != nil {
			return nil, fmt.Errorf("open example %s: %w", e.Name(), err)
		}
		ps[i] = Problem{Name: e.Name(), FS: sub}
	}
	return ps, nil
}
