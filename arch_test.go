package gavel

import (
	"go/ast"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const module = "github.com/gavel-oj/gavel"

// A layer binds packages of ours to what they may not, or may only, import,
// directly or through others. Names are relative to the module when they start
// with one of its folders; a name ending in "/..." means all below it as well.
type layer struct {
	packages []string
	never    []string // none of these, at any distance
	only     []string // outside the standard library, nothing but these
	neverStd []string // none of these directly, here or in packages of ours below
	reason   string
}

// layers is the table of docs/design: who may not import whom, and why.
var layers = []layer{
	{
		packages: pure,
		only:     append([]string{"gavelapi"}, pure...),
		neverStd: []string{"os", "os/...", "net", "net/...", "syscall", "database/sql", "log/...", "context", "crypto/rand", "math/rand"},
		reason:   "the rules of the product are functions of values and an explicit now: testable by millions of cases, replayable, the same in the simulator",
	},
	{
		packages: []string{"gavelapi"},
		only:     []string{},
		reason:   "other people's programs import the wire types, and get nothing else with them",
	},
	{
		packages: []string{"client"},
		only:     []string{"gavelapi", "github.com/cenkalti/backoff/..."},
		reason:   "other people's programs import the client: nothing internal may hide in its types, and no library they did not ask for",
	},
	{
		packages: []string{"internal/judge/...", "internal/sandbox/..."},
		never:    append([]string{"client", "internal/worker/..."}, arbiterSide...),
		reason:   "the far side of a slow line: what it knows comes with the lease, so that a worker needs no database and leaks none",
	},
	{
		packages: []string{"internal/worker"},
		never:    append([]string{"internal/up", "internal/serve"}, arbiterSide...),
		reason:   "as judging; it meets the arbiter through the client only, like anybody's worker",
	},
	{
		packages: []string{"cmd/gavel-worker"},
		never: append([]string{
			"internal/up", "internal/serve", "internal/cli", "internal/auth", "examples",
		}, arbiterSide...),
		reason: "a judge machine runs hostile programs: what is not linked cannot be reached from there, and needs no update there",
	},
	{
		packages: []string{"internal/judge", "internal/judge/checker"},
		never:    []string{"internal/sandbox/linuxbox"},
		reason:   "judging is told which box to use, so that it is tested without one and runs in another",
	},
	{
		packages: []string{"internal/sandbox"},
		only:     []string{},
		reason:   "what a box is must not depend on how one is built",
	},
	{
		packages: []string{"internal/httpapi"},
		never:    []string{"internal/store/...", "github.com/jackc/...", "internal/arbiter/...", "internal/pgserver/..."},
		reason:   "the API speaks to an interface; a handler with its own SQL would be a second place that changes leases",
	},
	{
		packages: []string{"internal/arbiter"},
		never:    []string{"internal/worker/...", "internal/judge", "internal/sandbox/linuxbox", "internal/pgserver/...", "client"},
		reason:   "the arbiter never judges, and meets workers only through their calls: a fault over there stays there",
	},
	{
		packages: []string{"internal/store", "internal/store/storedb"},
		never:    []string{"internal/arbiter/...", "internal/httpapi/...", "internal/worker/...", "internal/judge/...", "internal/sandbox/linuxbox", "client"},
		reason:   "facts know nothing of who asks for them",
	},
	{
		packages: []string{"internal/whatif"},
		only:     append([]string{"gavelapi"}, pure...),
		neverStd: []string{"os", "os/...", "net", "net/...", "syscall", "database/sql", "log/...", "context", "crypto/rand"},
		reason:   "a replay is a function of its trace, fleet and policy; files are opened by the command",
	},
	{
		packages: []string{"internal/timeline"},
		only:     []string{},
		neverStd: []string{"os", "os/...", "net", "net/...", "syscall", "database/sql", "log/...", "context", "crypto/rand", "math/rand"},
		reason:   "what a replay has shown is a value: judged and drawn by functions of it, whoever acted it out",
	},
	{
		packages: []string{"internal/sim", "internal/sim/history"},
		never:    append([]string{"internal/worker/...", "internal/judge/...", "internal/sandbox/...", "internal/serve", "client"}, arbiterSide...),
		neverStd: []string{"os", "os/...", "net", "net/...", "syscall", "database/sql", "log/...", "context", "crypto/rand", "math/rand"},
		reason:   "a history is a function of its seed: time, chance and the database are the simulation's own, and a failing seed fails again everywhere",
	},
	{
		packages: []string{"internal/drill/transcript"},
		never:    append([]string{"internal/worker/...", "internal/judge/...", "internal/sandbox/...", "internal/serve"}, arbiterSide...),
		reason:   "it writes down what anybody asks and is answered; what either side makes of it is not its business",
	},
	{
		packages: []string{"internal/edge"},
		never:    []string{"internal/arbiter/...", "internal/httpapi/...", "internal/worker/...", "internal/judge/...", "internal/sandbox/linuxbox", "internal/pgserver/..."},
		reason:   "a way to the work and nothing else: the agent that goes it is told so, and is the same as any other",
	},
	{
		packages: []string{"internal/pgserver/..."},
		never:    []string{"internal/store/...", "internal/arbiter/...", "internal/httpapi/..."},
		reason:   "it runs a server and does not care what is in it",
	},
	{
		packages: []string{"internal/clock", "internal/apperr", "internal/buildinfo", "internal/language", "internal/auth"},
		never:    append([]string{"internal/judge/...", "internal/sandbox/linuxbox", "internal/worker/..."}, arbiterSide...),
		reason:   "both sides use them, so they may bring neither side along",
	},
}

// arbiterSide is what a judge machine has no business with.
var arbiterSide = []string{
	"internal/store/...", "internal/arbiter/...", "internal/httpapi/...", "internal/pgserver",
	"github.com/jackc/...", "github.com/danielgtaylor/huma/...", "github.com/pressly/goose/...",
}

// pure packages have no I/O and read no clock.
var pure = []string{"internal/verdict", "internal/lease", "internal/dispatch", "internal/health", "internal/hours", "internal/report", "internal/alarm"}

// programs pins the modules of others that our own packages use in each
// program, and with it what we must answer for: one more is a decision, whose
// reason belongs in the commit that adds it here. What those modules bring
// along in their turn is go.sum's business.
var programs = map[string][]string{
	"cmd/gavel-worker": {
		"github.com/alecthomas/kong",
		"github.com/cenkalti/backoff/v5",
		"github.com/elastic/go-seccomp-bpf",
		"github.com/goccy/go-yaml",
		"github.com/google/uuid",
		"github.com/klauspost/compress",
		"github.com/lmittmann/tint",
		"golang.org/x/net",
		"golang.org/x/sys",
		"golang.org/x/term",
	},
	"cmd/gavel-drill": {
		"github.com/alecthomas/kong",
		"github.com/anishathalye/porcupine",
		"github.com/cenkalti/backoff/v5",
		"github.com/danielgtaylor/huma/v2",
		"github.com/goccy/go-yaml",
		"github.com/google/uuid",
		"github.com/jackc/pgx/v5",
		"github.com/klauspost/compress",
		"github.com/pressly/goose/v3",
		"github.com/prometheus/client_golang",
		"github.com/standard-webhooks/standard-webhooks/libraries",
		"golang.org/x/sync",
		"golang.org/x/sys",
	},
	"cmd/gavel": {
		"github.com/alecthomas/kong",
		"github.com/cenkalti/backoff/v5",
		"github.com/danielgtaylor/huma/v2",
		"github.com/elastic/go-seccomp-bpf",
		"github.com/goccy/go-yaml",
		"github.com/google/uuid",
		"github.com/jackc/pgx/v5",
		"github.com/klauspost/compress",
		"github.com/lmittmann/tint",
		"github.com/pressly/goose/v3",
		"github.com/prometheus/client_golang",
		"github.com/standard-webhooks/standard-webhooks/libraries",
		"golang.org/x/net",
		"golang.org/x/sync",
		"golang.org/x/sys",
		"golang.org/x/term",
		"golang.org/x/text",
	},
}

func TestLayersHold(t *testing.T) {
	g := load(t)
	for _, l := range layers {
		for _, v := range g.violations(l) {
			t.Errorf("%s\n\tthe rule for %s: %s", v, strings.Join(l.packages, " "), l.reason)
		}
	}
}

func TestProgramsUseTheModulesTheyAreKnownToUse(t *testing.T) {
	g := load(t)
	for program, want := range programs {
		if diff := cmp.Diff(want, g.direct(full(program))); diff != "" {
			t.Errorf("modules used by %s (-pinned +found):\n%s", program, diff)
		}
	}
	for _, p := range g.find("cmd/...") {
		if name := printed([]string{p.ImportPath}); programs[name] == nil {
			t.Errorf("%s is a program without a list of modules", name)
		}
	}
}

func TestPurePackagesReadNoClock(t *testing.T) {
	clock := []string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep"}
	for _, dir := range append([]string{"internal/sim"}, pure...) {
		eachFile(t, dir, func(path string, file *ast.File) {
			if strings.HasSuffix(path, "_test.go") {
				return
			}
			for _, name := range used(file, "time") {
				if slices.Contains(clock, name) {
					t.Errorf("%s uses time.%s: instants come in as parameters", path, name)
				}
			}
		})
	}
}

func TestSleepInTestsOnlyInVirtualTime(t *testing.T) {
	eachFile(t, ".", func(path string, file *ast.File) {
		if strings.HasSuffix(path, "_test.go") && slices.Contains(used(file, "time"), "Sleep") && !imports(file, "testing/synctest") {
			t.Errorf("%s sleeps in real time: wait for the thing itself, or run in a testing/synctest bubble", path)
		}
	})
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	for path, p := range load(t) {
		if p.ours() && p.Doc == "" && p.Error == nil && !matchAny([]string{"internal/store/storedb", module + "/tmp/..."}, path) { // sqlc writes none; tmp is scratch
			t.Errorf("%s has no package comment", path)
		}
	}
}
