package judge_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/internal/judge"
)

const bitsHello = "#include <bits/stdc++.h>\nint main(){std::cout<<\"Hello World!\\n\";}\n"

// sameSources are compiled with the header and without, and must not differ.
var sameSources = []struct {
	name, source string
	used         bool // the header, to the end
}{
	{"hello", bitsHello, true},
	{"a bit of everything", `// by nobody
#include <bits/stdc++.h>
using namespace std;
template <class T> struct tree { map<T, vector<T>> m; void add(T a, T b) { m[a].push_back(b); } };
int main() {
    tree<string> t; string a, b;
    while (cin >> a >> b) t.add(a, b);
    for (auto &[k, v] : t.m) { sort(v.begin(), v.end()); cout << k << v.size(); }
    mt19937 r(7); thread([&] { cout << r(); }).join();
    cout << setprecision(9) << sin(1.5) << __COUNTER__ << __LINE__ << '\n';
}
`, true},
	{"options after the header", "#include <bits/stdc++.h>\n#pragma GCC optimize(\"O3,unroll-loops\")\n#pragma GCC target(\"avx2\")\nint main(){std::vector<int> v(99);std::iota(v.begin(),v.end(),1);std::cout<<std::accumulate(v.begin(),v.end(),0);}\n", true},
	{"options before the header", "#pragma GCC optimize(\"O3,unroll-loops\")\n#pragma GCC target(\"avx2\")\n#include <bits/stdc++.h>\nint main(){std::vector<int> v(99);std::iota(v.begin(),v.end(),1);std::cout<<std::accumulate(v.begin(),v.end(),0);}\n", false},
	{"the header twice", "#include <bits/stdc++.h>\n#define NDEBUG\n#include <bits/stdc++.h>\nint main(){assert(0);std::cout<<1;}\n", false}, // the compiler then wants the header itself
	{"a warning in the source", "#include <bits/stdc++.h>\nint f(){}\nint main(){std::cout<<1;}\n", true},
	{"a warning by the header's macro", "#include <bits/stdc++.h>\n#warning In file included from nowhere\nint main(){std::cout<<1;}\n", false},
	{"an error in the source", "#include <bits/stdc++.h>\nint main(){std::vectr<int> v;cout<<1;}\n", false},
	{"an error deep in the header", "#include <bits/stdc++.h>\nstruct S{};\nint main(){std::vector<S> v(3);std::sort(v.begin(),v.end());std::set<S> s;s.insert(S{});}\n", false},
	{"an open end", "#include <bits/stdc++.h>\nint main(){", false},
	{"asks for the compiled header", "#include <bits/stdc++.h>\n#include \"/box/precompiled/bits/stdc++.h.gch\"\nint main(){}\n", false},
}

// TestCompiledHeadersChangeNothing also measures them: only with a real and
// large header is there something to gain.
func TestCompiledHeadersChangeNothing(t *testing.T) {
	p := realProvider(t)
	dirs := map[bool]string{true: filepath.Join(t.TempDir(), "with"), false: filepath.Join(t.TempDir(), "without")}
	with := newEngineWith(t, judge.Config{Provider: p, Slots: 1, ScratchDir: dirs[true]})
	without := newEngineWith(t, judge.Config{Provider: p, Slots: 1, ScratchDir: dirs[false], NoPrecompiledHeaders: true})
	if err := errors.Join(with.Precompile(t.Context(), "cpp20"), without.Precompile(t.Context(), "cpp20")); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(dirs[false], "headers")); err != nil || len(left) > 0 {
		t.Errorf("made though not wanted: %v, %v", left, err)
	}
	pkg := newPackage(t, "b ab\naab x\n", "does not matter")
	programs := func(dir string) map[string]string {
		found, err := filepath.Glob(filepath.Join(dir, "compiled/*"))
		if err != nil {
			t.Fatal(err)
		}
		programs := make(map[string]string)
		for _, f := range found {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			key, _, _ := strings.Cut(filepath.Base(f), ".")
			programs[key] = string(text)
		}
		return programs
	}
	var cpu [2]time.Duration
	for _, tt := range sameSources {
		t.Run(tt.name, func(t *testing.T) {
			pkg.Manifest.Limits.CompileCPUMS = 120_000 // the machine may be busy
			if strings.Contains(tt.source, "/box/precompiled") {
				pkg.Manifest.Limits.CompileCPUMS = 4000 // it is long reading
			}
			var a, b *judge.Report
			var errs [2]error
			var wg sync.WaitGroup
			wg.Go(func() { a, errs[0] = with.Judge(t.Context(), newTask(pkg, "cpp20", tt.source), quiet) })
			wg.Go(func() { b, errs[1] = without.Judge(t.Context(), newTask(pkg, "cpp20", tt.source), quiet) })
			wg.Wait()
			if err := errors.Join(errs[:]...); err != nil {
				t.Fatal(err)
			}
			if a.Compile.Precompiled != tt.used || b.Compile.Precompiled {
				t.Errorf("header used: %t, want %t; without: %t", a.Compile.Precompiled, tt.used, b.Compile.Precompiled)
			}
			if a.Compile.OK != b.Compile.OK || a.Compile.LogCut != b.Compile.LogCut || a.Compile.Fired != b.Compile.Fired || a.Verdict != b.Verdict {
				t.Errorf("with:\n%+v\nwithout:\n%+v", a.Compile, b.Compile)
			}
			if diff := cmp.Diff(b.Compile.Log, a.Compile.Log); diff != "" {
				t.Errorf("log differs: %s", diff)
			}
			if tt.used {
				cpu[0], cpu[1] = cpu[0]+a.Compile.CPU, cpu[1]+b.Compile.CPU
			}
		})
	}
	a, b := programs(dirs[true]), programs(dirs[false])
	if len(a) != len(b) || len(a) < 6 {
		t.Errorf("%d programs with, %d without", len(a), len(b))
	}
	for key, program := range b {
		if a[key] != program {
			t.Errorf("a program of %d bytes differs from one of %d bytes", len(a[key]), len(program))
		}
	}
	t.Logf("CPU of compiling: %v with, %v without", cpu[0], cpu[1])
	if cpu[0] > cpu[1] {
		t.Error("compiling takes longer with the header")
	}
}
