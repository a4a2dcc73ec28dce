package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/sandbox/linuxbox"
)

// JudgeCmd is `gavel judge`: the worker's engine without a server.
type JudgeCmd struct {
	Package     string   `arg:"" help:"Directory or zip file of the problem package."`
	Sources     []string `arg:"" optional:"" name:"source" help:"Source files, or - for standard input (then -l is needed)."`
	With        []string `sep:"none" placeholder:"FILE" help:"A further file that lies beside each source: a unit, a header, a module. May be given several times."`
	Language    string   `short:"l" placeholder:"ID" help:"Language; by default guessed from each file's ending."`
	All         bool     `help:"Run every test instead of stopping at the first that fails."`
	LimitFactor float64  `default:"1" placeholder:"N" help:"Multiply the time limit, for a machine that is slower or faster than the judges'."`
	Submissions bool     `help:"Judge the package's own example submissions against their declared verdicts; exit 1 when one differs."`
	Jobs        int      `short:"j" placeholder:"N" help:"Programs at once; by default one per physical core."`
	FailOn      string   `enum:"wrong," default:"" placeholder:"wrong" help:"wrong: exit 8 unless every verdict is AC."`
}

// maxLimitFactor is where a factor is a mistake.
const maxLimitFactor = 1000

// candidate is one source to judge.
type candidate struct {
	name     string // as given, or as in the package
	mainName string // of the main file, when there are more
	text     []byte
	more     []judge.SourceFile // what lies beside it
	lang     *language.Language
	expected []string // of an example of the package
	refused  *Error   // why it is not judged
}

// Run implements kong's command.
func (cmd *JudgeCmd) Run(app *App) (err error) {
	if err := cmd.check(); err != nil {
		return err
	}
	languages, err := language.Builtin()
	if err != nil {
		return err
	}
	own, err := cmd.ownSources(app, languages)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "gavel-judge-")
	if err != nil {
		return failed("make room, or set TMPDIR", "cannot make a temporary directory: %s", reason(err))
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	pkg, examples, err := openPackage(app.Ctx, cmd.Package, filepath.Join(dir, "package"))
	if err != nil {
		return err
	}
	for _, w := range pkg.Manifest.Warnings {
		app.note("warning: %s", w)
	}
	for i := range own {
		own[i].refuseBy(&pkg.Manifest)
	}
	if len(own) == 1 && own[0].refused != nil {
		return own[0].refused
	}
	all := own
	if cmd.Submissions {
		if len(examples) == 0 {
			return usage("name a source file instead", "%s has no example submissions", cmd.Package)
		}
		for i := range examples {
			lang, ok := languages.Get(pkg.Manifest.Submissions[i].Language)
			if !ok {
				return failed("judge it with -l", "%s is in %q, which this gavel does not know", examples[i].name, pkg.Manifest.Submissions[i].Language)
			}
			examples[i].lang = lang
		}
		all = append(all, examples...)
	}
	var engine *judge.Engine
	if n := toJudge(all); n > 0 {
		var closeEngine func() error
		if engine, closeEngine, err = cmd.engine(dir, n, languages); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, closeEngine()) }()
	}
	results, err := cmd.judgeAll(app, engine, pkg, all)
	if err != nil {
		return err
	}
	return cmd.print(app, pkg, results)
}

func (cmd *JudgeCmd) check() error {
	switch {
	case len(cmd.Sources) == 0 && !cmd.Submissions:
		return usage("name one, or judge the package's own with --submissions", "there is no source to judge")
	case !(cmd.LimitFactor > 0 && cmd.LimitFactor <= maxLimitFactor):
		return usage("give a number above 0, such as 2 or 0.5", "--limit-factor cannot be %v", cmd.LimitFactor)
	case cmd.Jobs < 0:
		return usage("leave it out for one per core", "--jobs cannot be negative")
	case cmd.Submissions && len(cmd.With) > 0:
		return usage("name a source", "--with adds files to sources that are named, and --submissions judges the package's own")
	case cmd.Submissions && len(cmd.Sources) > 0:
		return usage("do one after the other", "--submissions judges the package's own sources, and others are named")
	}
	return nil
}

// ownSources reads the sources that are named. One of several that cannot be
// judged keeps no other from it.
func (cmd *JudgeCmd) ownSources(app *App, languages *language.Registry) (all []candidate, err error) {
	for _, name := range cmd.Sources {
		c := candidate{name: name}
		files, err := readSources(app.In, name, cmd.With)
		if c.refused, err = refusal(err); err != nil {
			return nil, err
		}
		if c.refused != nil && len(cmd.Sources) == 1 {
			return nil, c.refused
		}
		var ok bool
		if cmd.Language != "" {
			if c.lang, ok = languages.Get(cmd.Language); !ok {
				return nil, usage("docs/reference/languages.md lists them", "there is no language %q", cmd.Language)
			}
		} else if c.lang, ok = languages.ByExtension(name); (!ok || name == "-") && c.refused == nil {
			return nil, usage("name it with -l", "the language of %s cannot be guessed", name)
		}
		if c.refused == nil {
			c.text = files[0].text
			if err := c.addFiles(files); err != nil {
				return nil, err
			}
		}
		all = append(all, c)
	}
	return all, nil
}

// refusal tells what is wrong with one source from what ends the command.
func refusal(err error) (*Error, error) {
	if e, ok := errors.AsType[*Error](err); ok && e.Code == ExitUsage {
		return e, nil
	}
	return nil, err
}

// refuseBy refuses what an arbiter would not take for the package.
func (c *candidate) refuseBy(m *problem.Manifest) {
	limit := m.Limits.CodeBytes
	switch {
	case c.refused != nil:
	case limit > 0 && c.bytes() > limit:
		c.refused = usage("shorten it; generated tables often fit as a formula", "%s has %d bytes, at most %d are taken: the package's limit of code", c.name, c.bytes(), limit)
	case !c.lang.In(m.Languages):
		c.refused = usage("choose one of the languages the problem allows", "%s: this problem does not allow %s", c.name, c.lang.ID)
	}
}

// bytes is the size of all its files.
func (c *candidate) bytes() int64 {
	n := int64(len(c.text))
	for _, f := range c.more {
		n += int64(len(f.Text))
	}
	return n
}

// toJudge counts those that are not refused.
func toJudge(all []candidate) int {
	return len(slices.DeleteFunc(slices.Clone(all), func(c candidate) bool { return c.refused != nil }))
}

// addFiles adds what lies beside the main file, and checks the names as the
// arbiter would.
func (c *candidate) addFiles(files []namedText) error {
	if len(files) == 1 {
		return nil
	}
	c.mainName = cmp.Or(files[0].name, c.lang.Source)
	names := []string{c.mainName}
	for _, f := range files[1:] {
		names = append(names, f.name)
		c.more = append(c.more, judge.SourceFile{Name: f.name, Text: f.text})
	}
	if f, ok := errors.AsType[*language.FileError](c.lang.Files(names...)); ok {
		return usage(f.Hint, "%s", f.Error())
	}
	return nil
}

// engine opens the sandbox and an engine over it.
func (cmd *JudgeCmd) engine(dir string, sources int, languages *language.Registry) (*judge.Engine, func() error, error) {
	cpus, err := linuxbox.CPUs()
	if err != nil {
		return nil, nil, err
	}
	jobs := physical(cpus)
	if cmd.Jobs > len(cpus) {
		return nil, nil, usage("programs that share a CPU measure nothing", "--jobs %d is more than this machine's %d CPUs", cmd.Jobs, len(cpus))
	} else if cmd.Jobs > 0 {
		jobs = cmd.Jobs
	}
	copies := filepath.Join(dir, "tmp")
	if err := os.Mkdir(copies, 0o755); err != nil {
		return nil, nil, err
	}
	provider, err := linuxbox.Open(linuxbox.Config{TempDir: copies})
	if err != nil {
		return nil, nil, boxError(err)
	}
	engine, err := judge.New(judge.Config{
		// One submission after the other gets all cores for its tests; several
		// at once would only wait for each other. But while one is compiled,
		// another can run.
		Provider: provider, Slots: min(jobs, sources), CPUs: cpus[:jobs], Languages: languages,
		ScratchDir: filepath.Join(dir, "scratch"), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, nil, errors.Join(err, provider.Close())
	}
	return engine, func() error { return errors.Join(engine.Close(), provider.Close()) }, nil
}

// physical counts the cores, of which each CPU is one thread.
func physical(cpus []sandbox.CPU) int {
	return len(slices.DeleteFunc(slices.Clone(cpus), func(c sandbox.CPU) bool { return c.Sibling }))
}

// boxError says why there are no boxes here.
func boxError(err error) error {
	f, ok := errors.AsType[*sandbox.Fault](err)
	if !ok {
		return err
	}
	hint := f.Hint
	switch {
	case f.Op == "privilege":
		hint = "run it with sudo: it needs root to make boxes, and what it judges gets no rights at all"
	case hint == "":
		hint = "gavel doctor --for worker looks for the cause"
	}
	return withCause(err, failed(hint, "this machine cannot make boxes (%s): %v", f.Op, f.Err))
}

// judgeAll judges every source; only the end of the context is an error.
func (cmd *JudgeCmd) judgeAll(app *App, engine *judge.Engine, pkg *problem.Package, all []candidate) ([]judged, error) {
	live := &liveLine{app: app}
	defer live.clear()
	show := cmd.progress(app, live, toJudge(all))
	results := make([]judged, len(all))
	group, ctx := errgroup.WithContext(app.Ctx)
	for i, c := range all {
		if c.refused != nil {
			results[i].refuse(c)
			continue
		}
		group.Go(func() error {
			var err error
			results[i], err = cmd.judgeOne(ctx, engine, pkg, c, func(p judge.Progress) { show(c.name, p, false) })
			show(c.name, judge.Progress{}, true)
			return err
		})
	}
	return results, group.Wait()
}

// progress shows a person how far it is.
func (cmd *JudgeCmd) progress(app *App, live *liveLine, total int) func(name string, p judge.Progress, over bool) {
	var mu sync.Mutex
	done := 0
	return func(name string, p judge.Progress, over bool) {
		mu.Lock()
		defer mu.Unlock()
		done += map[bool]int{true: 1}[over]
		if !app.ErrTerminal {
			return
		}
		line := fmt.Sprintf("judged %d of %d", done, total)
		if total == 1 {
			line = name + ": " + string(p.Phase)
		} else if !over {
			line += fmt.Sprintf("   %s: %s", name, p.Phase)
		}
		if p.Phase == judge.PhaseRunning {
			line += fmt.Sprintf(" %d/%d", p.TestsDone, p.TestsTotal)
		}
		if !over || total > 1 {
			live.show(line, "judging")
		}
	}
}

// judgeOne judges one source. What the system fails at is in the result.
func (cmd *JudgeCmd) judgeOne(ctx context.Context, engine *judge.Engine, pkg *problem.Package, c candidate, show func(judge.Progress)) (judged, error) {
	j := judged{Source: c.name, Language: c.lang.ID, Expected: c.expected, sourceBytes: c.bytes(), sourceFiles: 1 + len(c.more)}
	limits, err := language.Effective(pkg.Manifest.Limits, c.lang)
	if err == nil {
		limits.CPU = max(time.Millisecond, time.Duration(float64(limits.CPU)*cmd.LimitFactor))
		limits.Wall, err = language.Wall(limits.CPU, 0)
	}
	if err != nil {
		j.fault(string(judge.BlamePackage), err.Error())
		return j, nil
	}
	j.limits(limits)
	stop := judge.StopFirst
	if cmd.All {
		stop = judge.StopAll
	}
	var mu sync.Mutex
	differences := map[int]*Difference{}
	report, err := engine.Judge(ctx, judge.Task{
		Source: c.text, SourceName: cmp.Or(c.mainName, path.Base(c.name)), More: c.more, Language: c.lang.ID, Package: pkg, Limits: judge.Limits(limits), Stop: stop,
		Wrong: func(test int, output io.ReadSeeker) {
			d := differenceOn(ctx, pkg, test, output)
			mu.Lock()
			defer mu.Unlock()
			differences[test] = d
		},
	}, show)
	if f, ok := errors.AsType[*judge.Fault](err); ok {
		message := f.Message
		if f.Err != nil {
			message += ": " + f.Err.Error()
		}
		j.fault(string(f.Blame), message)
		return j, nil
	}
	if err != nil {
		return j, err
	}
	j.take(report)
	for i, t := range report.Tests {
		if t.Verdict == "WA" && differences[i] != nil && j.Difference == nil {
			j.Difference = differences[i]
		}
	}
	return j, nil
}
