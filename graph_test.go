package gavel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A listed package is one line of go list -deps -json.
type listed struct {
	ImportPath string
	Standard   bool
	Doc        string
	Imports    []string
	Deps       []string
	Module     *struct {
		Path string
		Main bool
	}
	Error *struct{ Err string }
}

// ours reports whether p belongs to this module.
func (p listed) ours() bool { return p.Module != nil && p.Module.Main }

type graph map[string]listed

func load(t *testing.T) graph {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-deps", "-json=ImportPath,Standard,Doc,Imports,Deps,Module,Error", "./...")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	g := graph{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return g
		} else if err != nil {
			t.Fatal(err)
		}
		g[p.ImportPath] = p
	}
}

// full turns a name of the table into an import path (or pattern).
func full(name string) string {
	switch first, _, _ := strings.Cut(name, "/"); first {
	case "internal", "cmd", "client", "examples", "gavelapi", "scripts":
		return module + "/" + name
	}
	return name
}

func match(name, path string) bool {
	name = full(name)
	if base, all := strings.CutSuffix(name, "/..."); all {
		return path == base || strings.HasPrefix(path, base+"/")
	}
	return path == name
}

func matchAny(names []string, path string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return match(n, path) })
}

// find returns the packages of ours that a name of the table means.
func (g graph) find(name string) []listed {
	var found []listed
	for path, p := range g {
		if p.ours() && match(name, path) {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b listed) int { return strings.Compare(a.ImportPath, b.ImportPath) })
	return found
}

// forbids reports whether a package the layer binds may not depend on p.
func (l layer) forbids(p listed) bool {
	if matchAny(l.packages, p.ImportPath) {
		return false // bound by the same row
	}
	return matchAny(l.never, p.ImportPath) || l.only != nil && !p.Standard && !matchAny(l.only, p.ImportPath)
}

// violations returns what in g breaks the layer, each with the way from the
// package to what it must not reach.
func (g graph) violations(l layer) []string {
	var bad []string
	for _, name := range l.packages {
		found := g.find(name)
		if len(found) == 0 {
			bad = append(bad, fmt.Sprintf("the table names %s, which does not exist", name))
		}
		for _, p := range found {
			for _, dep := range p.Deps {
				way := g.way(p.ImportPath, dep)
				// What a forbidden package brings along is not said again.
				if l.forbids(g[dep]) && !slices.ContainsFunc(way[1:len(way)-1], func(at string) bool { return l.forbids(g[at]) }) {
					bad = append(bad, printed(way))
				}
			}
			for _, at := range append([]string{p.ImportPath}, p.Deps...) {
				if !g[at].ours() {
					continue
				}
				for _, imp := range g[at].Imports {
					if g[imp].Standard && matchAny(l.neverStd, imp) {
						bad = append(bad, printed(append(g.way(p.ImportPath, at), imp)))
					}
				}
			}
		}
	}
	slices.Sort(bad)
	return slices.Compact(bad)
}

// way is a shortest chain of imports from one package to another.
func (g graph) way(from, to string) []string {
	before := map[string]string{from: ""}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		if queue[0] == to {
			break
		}
		for _, next := range g[queue[0]].Imports {
			if _, seen := before[next]; !seen {
				before[next] = queue[0]
				queue = append(queue, next)
			}
		}
	}
	var chain []string
	for at := to; at != ""; at = before[at] {
		chain = append(chain, at)
	}
	slices.Reverse(chain)
	return chain
}

func printed(way []string) string {
	return strings.ReplaceAll(strings.Join(way, " → "), module+"/", "")
}

// direct lists the modules of others that our packages in a program import by
// themselves: what we answer for, as opposed to what those bring along.
func (g graph) direct(program string) []string {
	var mods []string
	for _, at := range append([]string{program}, g[program].Deps...) {
		if !g[at].ours() {
			continue
		}
		for _, imp := range g[at].Imports {
			if m := g[imp].Module; m != nil && !m.Main {
				mods = append(mods, m.Path)
			}
		}
	}
	slices.Sort(mods)
	return slices.Compact(mods)
}

// eachFile calls f for every Go file under dir that is written by hand.
func eachFile(t *testing.T, dir string, f func(path string, file *ast.File)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && path != dir && (name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if !ast.IsGenerated(file) {
			f(path, file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// used lists the names of a standard package that a file mentions.
func used(file *ast.File, pkg string) []string {
	var names []string
	if !imports(file, pkg) {
		return nil
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == pkg {
				names = append(names, sel.Sel.Name)
			}
		}
		return true
	})
	return names
}

func imports(file *ast.File, path string) bool {
	return slices.ContainsFunc(file.Imports, func(s *ast.ImportSpec) bool { return s.Path.Value == `"`+path+`"` })
}

// The rules fire: a graph made up for the purpose breaks each kind of them.
func TestBrokenLayersAreFound(t *testing.T) {
	own := func(name string, imports, deps []string) listed {
		p := listed{ImportPath: module + "/" + name, Imports: imports, Deps: append(deps, imports...)}
		p.Module = &struct {
			Path string
			Main bool
		}{module, true}
		return p
	}
	g := graph{"os": {ImportPath: "os", Standard: true}, "example.org/x": {ImportPath: "example.org/x"}}
	for _, p := range []listed{
		own("internal/a", []string{module + "/internal/b"}, []string{module + "/internal/c", "os"}),
		own("internal/b", []string{module + "/internal/c", "os"}, nil),
		own("internal/c", nil, nil),
		own("internal/d", []string{"example.org/x"}, nil),
	} {
		g[p.ImportPath] = p
	}
	a := []string{"internal/a"}
	tests := []struct {
		name string
		rule layer
		want []string
	}{
		{"kept", layer{packages: a, never: []string{"internal/d"}, neverStd: []string{"net"}}, nil},
		{"import of an import", layer{packages: a, never: []string{"internal/c"}}, []string{"internal/a → internal/b → internal/c"}},
		{"everything below", layer{packages: []string{"internal/..."}, never: []string{"example.org/..."}}, []string{"internal/d → example.org/x"}},
		{"standard package in one of ours below", layer{packages: a, neverStd: []string{"os"}}, []string{"internal/a → internal/b → os"}},
		{"more than what is allowed", layer{packages: []string{"internal/d"}, only: []string{}}, []string{"internal/d → example.org/x"}},
		{"row about nothing", layer{packages: []string{"internal/gone"}}, []string{"the table names internal/gone, which does not exist"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, g.violations(tt.rule)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}
