package intake

import (
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/problem"
)

// node is a file or directory of a view.
type node struct {
	dir        bool
	size       int64
	executable bool
	open       func() (io.ReadCloser, error) // files only
	children   []string                      // base names, sorted; directories only, set by finish
}

// builder collects entries, from whatever source, under the limits.
type builder struct {
	lim    limits
	source string // "zip" or "directory", for messages
	nodes  map[string]*node
	links  map[string]string // path → target as written
	bytes  int64
}

func newBuilder(lim limits, source string) *builder {
	return &builder{
		lim:    lim,
		source: source,
		nodes:  map[string]*node{".": {dir: true}},
		links:  map[string]string{},
	}
}

// hidden reports whether an entry is none of the package's business: what
// operating systems and tools leave behind.
func hidden(name string) bool {
	if base := path.Base(name); base == ".timelimit" && strings.Count(name, "/") <= 1 {
		return hidden(path.Dir(name))
	}
	for name != "" && name != "." {
		var elem string
		elem, name, _ = strings.Cut(name, "/")
		if elem == "__MACOSX" || elem == "Thumbs.db" || elem == "desktop.ini" || strings.HasPrefix(elem, ".") && elem != "." && elem != ".." {
			return true
		}
	}
	return false
}

// checkName refuses names that could mean something outside the package or
// something else on another system.
func checkName(name string) error {
	refuse := func(hint, format string, args ...any) error {
		return apperr.New(apperr.Invalid, hint, format, args...).At(entryField(name))
	}
	const repack = "pack the problem directory itself with an ordinary zip program"
	switch {
	case name == "":
		return refuse(repack, "has no name")
	case !utf8.ValidString(name):
		return refuse("rename the file in plain letters, or pack it with UTF-8 names", "has a name that is not UTF-8")
	case strings.Contains(name, `\`):
		return refuse("pack it with a program that writes '/' between directories", "has a backslash in its name")
	case strings.HasPrefix(name, "/") || len(name) > 1 && name[1] == ':':
		return refuse(repack, "has an absolute path; paths must stay inside the package")
	case slices.Contains(strings.Split(name, "/"), ".."):
		return refuse(repack, `has ".." in its path; paths must stay inside the package`)
	case len(name) > problem.MaxPathBytes:
		return refuse("shorten its path", "has a path of %d bytes; at most %d are allowed", len(name), problem.MaxPathBytes)
	}
	if err := problem.CheckPath(name); err != nil {
		return refuse("rename it", "has %v", err)
	}
	return nil
}

func (b *builder) dir(name string) error {
	if old, ok := b.nodes[name]; ok && old.dir {
		return nil
	}
	return b.add(name, &node{dir: true})
}

func (b *builder) file(name string, size int64, executable bool, open func() (io.ReadCloser, error)) error {
	return b.add(name, &node{size: size, executable: executable, open: open})
}

func (b *builder) link(name, target string) error {
	if err := b.checkNew(name); err != nil {
		return err
	}
	if err := b.parents(name); err != nil {
		return err
	}
	b.links[name] = target
	return nil
}

func (b *builder) add(name string, n *node) error {
	if err := b.checkNew(name); err != nil {
		return err
	}
	if err := b.parents(name); err != nil {
		return err
	}
	return b.put(name, n)
}

func (b *builder) checkNew(name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	_, isNode := b.nodes[name]
	_, isLink := b.links[name]
	if isNode || isLink {
		return apperr.New(apperr.Invalid, "remove one of them", "is in the %s twice", b.source).At(entryField(name))
	}
	return nil
}

// parents adds the directories above name.
func (b *builder) parents(name string) error {
	for d := path.Dir(name); d != "."; d = path.Dir(d) {
		_, link := b.links[d]
		if n, ok := b.nodes[d]; ok && n.dir {
			return nil
		} else if ok || link {
			return apperr.New(apperr.Invalid, "rename one of them", "lies below %q, which is not a directory", shorten(d)).At(entryField(name))
		}
		if err := b.put(d, &node{dir: true}); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) put(name string, n *node) error {
	if len(b.nodes) > b.lim.files {
		return apperr.New(apperr.TooLarge, "split the problem, or remove files that judging does not need", "the %s holds more than %d files", b.source, b.lim.files)
	}
	if n.size < 0 || n.size > b.lim.bytes || b.bytes+n.size > b.lim.bytes {
		return apperr.New(apperr.TooLarge, "use smaller or fewer tests",
			"the files of the %s are larger than %s together, the limit for a package", b.source, size(b.lim.bytes)).At(entryField(name))
	}
	b.bytes += n.size
	b.nodes[name] = n
	return nil
}

// finish resolves links, takes off a single directory around everything, and
// makes the view.
func (b *builder) finish() (*View, error) {
	if err := b.resolveLinks(); err != nil {
		return nil, err
	}
	files := 0
	for name, n := range b.nodes {
		if !n.dir {
			files++
		}
		if name != "." {
			parent := b.nodes[path.Dir(name)]
			parent.children = append(parent.children, path.Base(name))
		}
	}
	if files == 0 {
		return nil, apperr.New(apperr.Invalid, "give a directory or zip that holds a problem package", "the %s holds no files", b.source)
	}
	for _, n := range b.nodes {
		slices.Sort(n.children)
	}
	v := &View{nodes: b.nodes, bytes: b.bytes, files: files}
	if only := v.nodes["."].children; len(only) == 1 && v.nodes[only[0]].dir {
		v.strip(only[0])
	}
	return v, nil
}

// strip takes the directory top, the only entry, off every path.
func (v *View) strip(top string) {
	stripped := make(map[string]*node, len(v.nodes))
	for name, n := range v.nodes {
		switch rest, ok := strings.CutPrefix(name, top+"/"); {
		case ok:
			stripped[rest] = n
		case name == top:
			stripped["."] = n
		}
	}
	v.nodes, v.top = stripped, top
}

// maxHops bounds a chain of links, as kernels do.
const maxHops = 40

// resolveLinks turns each link into what it points to.
func (b *builder) resolveLinks() error {
	type alias struct {
		name string
		node *node
	}
	var aliases []alias
	for _, name := range slices.Sorted(maps.Keys(b.links)) {
		target, err := b.resolve(name)
		if err != nil {
			return err
		}
		n := b.nodes[target]
		aliases = append(aliases, alias{name, n})
		if !n.dir {
			continue
		}
		if strings.HasPrefix(name+"/", target+"/") || target == "." {
			return linkError(name, "replace it by a copy", "is a link to a directory that holds the link itself")
		}
		for below, n := range b.nodes {
			if rest, ok := strings.CutPrefix(below, target+"/"); ok {
				aliases = append(aliases, alias{name + "/" + rest, n})
			}
		}
		for below := range b.links {
			if strings.HasPrefix(below, target+"/") {
				return linkError(name, "replace it by a copy", "is a link to a directory that holds links itself")
			}
		}
	}
	clear(b.links)
	for _, a := range aliases {
		var err error
		if n := *a.node; n.dir { // a copy: children are set later, per path
			err = b.dir(a.name)
		} else {
			err = b.add(a.name, &n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// resolve follows link name to the path of a node.
func (b *builder) resolve(name string) (string, error) {
	p := name
	for range maxHops {
		prefix, rest := b.firstLink(p)
		if prefix == "" {
			if b.nodes[p] == nil {
				return "", linkError(name, "remove the link, or put a copy of the file in its place", "is a link to %q, which is not in the package", shorten(p))
			}
			return p, nil
		}
		target := b.links[prefix]
		const hint = "put a copy of the file in its place; links must stay inside the package"
		if path.IsAbs(target) || strings.Contains(target, `\`) || target == "" {
			return "", linkError(name, hint, "is a link to %q, which is outside the package", shorten(target))
		}
		p = path.Join(path.Dir(prefix), target, rest)
		if p == ".." || strings.HasPrefix(p, "../") {
			return "", linkError(name, hint, "is a link to %q, which is outside the package", shorten(target))
		}
	}
	return "", linkError(name, "remove the link", "is a link that leads in a circle")
}

// firstLink splits p after its first element that is a link.
func (b *builder) firstLink(p string) (prefix, rest string) {
	for i := 0; i <= len(p); i++ {
		if i == len(p) || p[i] == '/' {
			if _, ok := b.links[p[:i]]; ok {
				return p[:i], strings.TrimPrefix(p[i:], "/")
			}
		}
	}
	return "", ""
}

func linkError(name, hint, format string, args ...any) error {
	return apperr.New(apperr.Invalid, hint, format, args...).At(entryField(name))
}
