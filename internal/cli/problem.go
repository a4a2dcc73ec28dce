package cli

import (
	"archive/zip"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/problem/intake"
)

// ProblemCmd is `gavel problem`.
type ProblemCmd struct {
	Import ProblemImportCmd `cmd:"" help:"Have a problem package, a directory or a zip, verified by workers and then published."`
	List   ProblemListCmd   `cmd:"" help:"List problems."`
	Show   ProblemShowCmd   `cmd:"" help:"Show one problem."`
	Report ProblemReportCmd `cmd:"" help:"Show what was found when a problem's package was prepared."`
}

// ProblemImportCmd is `gavel problem import`.
type ProblemImportCmd struct {
	Paths []string `arg:"" name:"path" help:"Directory or zip file of a package; several are prepared side by side."`
	Name  string   `placeholder:"NAME" help:"Publish under this name; by default that of the directory."`

	NoWait          bool   `name:"no-wait" help:"Return at once; the package is published when it is verified."`
	SkipSubmissions bool   `name:"skip-submissions" xor:"verify" help:"Do not judge the submissions that the package declares."`
	NoVerify        bool   `name:"no-verify" xor:"verify" help:"Publish at once what nobody has verified; written to the audit trail."`
	Reason          string `placeholder:"TEXT" help:"Why it is not verified, for the audit trail."`
}

var goodName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// check refuses what cannot be meant, before anything is sent.
func (cmd *ProblemImportCmd) check() error {
	if cmd.Name != "" && !goodName.MatchString(cmd.Name) {
		return usage("use lower-case letters, digits, dot, dash and underscore, at most 64", "--name %s cannot be the name of a problem", cmd.Name)
	}
	if cmd.Name != "" && len(cmd.Paths) > 1 {
		return usage("import them one by one, or leave it out", "--name is one problem's name, and these are %d packages", len(cmd.Paths))
	}
	if cmd.Reason != "" && !cmd.NoVerify {
		return usage("leave it out", "--reason is for the audit trail, where only --no-verify is written")
	}
	for _, path := range cmd.Paths {
		st, err := os.Stat(path)
		if err != nil {
			return usage("check the path; it is a package's directory or zip", "cannot read %s: %s", path, reason(err))
		}
		if !st.IsDir() && !st.Mode().IsRegular() {
			return usage("name a package's directory or zip", "%s is neither a directory nor a file", path)
		}
	}
	return nil
}

// Run implements kong's command.
func (cmd *ProblemImportCmd) Run(app *App) error {
	if err := cmd.check(); err != nil {
		return err
	}
	c, err := app.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	if len(cmd.Paths) > 1 {
		return cmd.several(app, c)
	}
	info, _, err := cmd.send(app, c, cmd.Paths[0])
	if err != nil {
		return err
	}
	return cmd.imported(app, c, info)
}

// send sends a package. ofPackage says that an error is about this one, so
// that another may do better.
func (cmd *ProblemImportCmd) send(app *App, c *client.Client, path string) (info *gavelapi.ProblemInfo, ofPackage bool, err error) {
	name := cmd.Name
	var body io.ReadCloser
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		body = zipStream(app.Ctx, path)
	} else {
		f, err := os.Open(path)
		if err != nil {
			return nil, true, usage("check the file's permissions", "cannot read %s: %s", path, reason(err))
		}
		if st, err = f.Stat(); err == nil && name == "" {
			name = nameForZip(f, st.Size(), path)
		}
		body = f
	}
	defer body.Close()
	live := &liveLine{app: app}
	defer live.clear()
	up := &upload{ReadCloser: body, live: live, path: path}
	in := client.Import{Name: name, Reason: cmd.Reason}
	switch {
	case cmd.NoVerify:
		in.Verify = gavelapi.VerifyNone
	case cmd.SkipSubmissions:
		in.Verify = gavelapi.VerifyData
	}
	info, err = c.ProblemImport(app.Ctx, in, up)
	live.clear()
	// What went wrong on this side explains what the other side saw of it.
	if local := up.failure(); local != nil && app.Ctx.Err() == nil {
		e := app.explain(local)
		return nil, true, withCause(local, &Error{Code: e.Code, Message: path + ": " + e.Message, Hint: e.Hint})
	}
	if p, ok := errors.AsType[*gavelapi.Problem](err); ok && (p.Status == http.StatusUnprocessableEntity || p.Status == http.StatusRequestEntityTooLarge) {
		e := app.explain(err)
		return nil, true, withCause(err, &Error{Code: e.Code, Message: path + ": " + e.Message, Hint: e.Hint})
	}
	if err != nil {
		return nil, false, err
	}
	for _, w := range info.Warnings {
		app.note("warning: %s", w)
	}
	if info.Unchanged {
		app.note("%s is unchanged: this package is live already", info.Name)
	}
	return info, false, nil
}

// zipStream zips a directory while it is being sent.
func zipStream(ctx context.Context, dir string) io.ReadCloser {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs // so that "." has a name
	}
	r, w := io.Pipe()
	stop := context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })
	go func() {
		defer stop()
		b := bufio.NewWriterSize(w, 64<<10)
		err := intake.ZipDir(b, dir)
		if err == nil {
			err = b.Flush()
		}
		w.CloseWithError(err)
	}()
	return r
}

// nameForZip is empty when the zip names its problem by its one directory, and
// the name of the file otherwise. What is no zip is the server's to refuse.
func nameForZip(f io.ReaderAt, size int64, path string) string {
	z, err := zip.NewReader(f, size)
	if err != nil {
		return ""
	}
	tops := map[string]bool{}
	for _, e := range z.File {
		top, _, nested := strings.Cut(e.Name, "/")
		if !nested {
			tops[""] = true
		}
		if top != "__MACOSX" {
			tops[top] = true
		}
	}
	base := strings.ToLower(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)))
	if len(tops) == 1 && !tops[""] || !goodName.MatchString(base) {
		return ""
	}
	return base
}

// upload counts what goes out and remembers what failed on this side.
type upload struct {
	io.ReadCloser
	live  *liveLine
	path  string
	sent  int64
	shown int64
	err   atomic.Pointer[error]
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	u.sent += int64(n)
	if u.live.app.ErrTerminal && u.sent-u.shown >= 1<<20 {
		u.shown = u.sent
		u.live.show(fmt.Sprintf("sending %s: %s", u.path, size(u.sent)), "sending")
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) && !errors.Is(err, os.ErrClosed) {
		u.err.CompareAndSwap(nil, &err)
	}
	return n, err
}

func (u *upload) failure() error {
	if p := u.err.Load(); p != nil {
		return *p
	}
	return nil
}

// ProblemListCmd is `gavel problem list`.
type ProblemListCmd struct{}

// Run implements kong's command.
func (cmd *ProblemListCmd) Run(app *App) error {
	c, err := app.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	var all gavelapi.ProblemList
	all.Problems, all.Next, err = pages(app, pageLimit{}, func(cursor string, limit int) ([]gavelapi.ProblemInfo, string, error) {
		page, err := c.ProblemList(app.Ctx, cursor, limit)
		if err != nil {
			return nil, "", err
		}
		return page.Problems, page.Next, nil
	})
	if err != nil {
		return err
	}
	if len(all.Problems) == 0 && app.OutTerminal {
		app.note("there is no problem yet; import one with: gavel problem import DIRECTORY")
	}
	return app.printProblems(all.Problems, all)
}

// ProblemShowCmd is `gavel problem show`.
type ProblemShowCmd struct {
	Name string `arg:"" help:"Name of the problem."`
}

// Run implements kong's command.
func (cmd *ProblemShowCmd) Run(app *App) error {
	if cmd.Name == "" {
		return usage("gavel problem list shows the names", "the name of the problem is empty")
	}
	c, err := app.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	p, err := c.ProblemGet(app.Ctx, cmd.Name)
	if err != nil {
		return err
	}
	if app.Output != "table" && app.Output != "wide" {
		return app.printProblems([]gavelapi.ProblemInfo{*p}, p)
	}
	rows := [][2]string{
		{"title", p.Title},
		{"version", "none is published yet"},
		{"limits", fmt.Sprintf("%d ms cpu, %s MiB", p.CPUMS, mib(p.MemoryBytes))},
		{"tests", fmt.Sprint(p.Tests)},
		{"format", p.Format},
		{"size", size(p.SizeBytes)},
		{"package", p.PackageDigest},
	}
	if p.PublishedAt != nil {
		rows[1][1] = fmt.Sprintf("%d, published %s UTC", p.Version, p.PublishedAt.UTC().Format(time.DateTime))
	}
	if n := p.Preparation; n != nil {
		rows = append(rows, [2]string{"import", fmt.Sprintf("%d: %s", n.ID, preparationLine(n))})
	}
	for _, w := range p.Warnings {
		rows = append(rows, [2]string{"warning", w})
	}
	return app.sheet("problem "+p.Name, rows)
}

func (a *App) printProblems(list []gavelapi.ProblemInfo, whole any) error {
	type P = gavelapi.ProblemInfo
	return printItems(a, list, whole, func(p P) string { return p.Name }, []column[P]{
		{name: "NAME", flex: 12, cell: func(p P) cell { return text(p.Name) }},
		{name: "TITLE", flex: 10, cell: func(p P) cell { return text(p.Title) }},
		{name: "VERSION", right: true, cell: func(p P) cell { return number(int64(p.Version)) }},
		{name: "TESTS", right: true, cell: func(p P) cell { return number(int64(p.Tests)) }},
		{name: "CPU ms", right: true, cell: func(p P) cell { return number(p.CPUMS) }},
		{name: "MiB", right: true, cell: func(p P) cell { return text(mib(p.MemoryBytes)) }},
		{name: "SIZE", right: true, cell: func(p P) cell { return text(size(p.SizeBytes)) }},
		{name: "FORMAT", wide: true, cell: func(p P) cell { return text(p.Format) }},
		{name: "PUBLISHED (UTC)", wide: true, cell: func(p P) cell {
			if p.PublishedAt == nil {
				return text("not yet")
			}
			return text(instant(*p.PublishedAt))
		}},
		{name: "PACKAGE", wide: true, cell: func(p P) cell { return text(p.PackageDigest) }},
	})
}

// sheet prints one thing as a heading and named lines.
func (a *App) sheet(title string, rows [][2]string) error {
	w := bufio.NewWriter(a.Out)
	fmt.Fprintln(w, a.style.paint(clean(title), bold, a.style.out))
	for _, r := range rows {
		fmt.Fprintf(w, "  %s %s\n", a.style.paint(fmt.Sprintf("%-9s", r[0]), dim, a.style.out), clean(r[1]))
	}
	return w.Flush()
}
