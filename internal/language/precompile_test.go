package language

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCommandsOfAPrecompiledHeaderDifferOnlyInTheirSources(t *testing.T) {
	t.Parallel()
	found := 0
	for _, l := range mustBuiltin(t).All() {
		if l.Precompile == nil {
			continue
		}
		found++
		plain := l.CompileArgv("SOURCE")
		for name, argv := range map[string][]string{
			"list": l.CompileArgv(l.Precompile.List...), "tools": l.PrecompileToolsArgv(), "make": l.CompileArgv(l.Precompile.ForHeader("/usr/h")...),
			"use": l.CompileArgv(l.Precompile.ForSources("/dir", "SOURCE")...),
		} {
			at := slices.Index(plain, "SOURCE")
			after := len(plain) - at - 1
			if !slices.Equal(argv[:at], plain[:at]) || !slices.Equal(argv[len(argv)-after:], plain[at+1:]) {
				t.Errorf("%s: %s has other flags than a compile: %q, %q", l.ID, name, argv, plain)
			}
			for _, arg := range argv {
				if strings.ContainsAny(arg, "{}") {
					t.Errorf("%s: %s leaves a placeholder: %q", l.ID, name, argv)
				}
			}
		}
		if diff := cmp.Diff([]string{"-I", "/dir", "-Winvalid-pch", "a", "b"}, l.Precompile.ForSources("/dir", "a", "b")); diff != "" {
			t.Errorf("%s: %s", l.ID, diff)
		}
	}
	if found == 0 {
		t.Error("no language has a precompiled header")
	}
}

func TestBadPrecompileSectionsAreRefused(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("data/cpp20.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ old, changed, want string }{
		{"  header: bits/stdc++.h", "  header: /etc/passwd", `precompile.header "/etc/passwd" must be a clean relative path`},
		{"  header: bits/stdc++.h", "  header: ../x", `precompile.header "../x"`},
		{"  file: bits/stdc++.h.gch", "  file: bits/stdc++.h", "file must not be header itself"},
		{"  file: bits/stdc++.h.gch", "  file: a/../b", `precompile.file "a/../b"`},
		{`"{header}"`, "x", "make must contain {header}"},
		{`"{precompiled}"`, "x", "use must contain {precompiled}"},
		{`-Winvalid-pch, "{sources}"]`, "-Winvalid-pch]", "use must contain {sources}"},
		{"  list: [-M, -x, c++, -include, bits/stdc++.h, /dev/null]", "  list: []", "precompile.list is missing"},
		{"  tools:", "  tolls:", "tolls"},
	} {
		changed := strings.Replace(string(text), tt.old, tt.changed, 1)
		if changed == string(text) {
			t.Fatalf("%q is not in the file", tt.old)
		}
		if _, err := Parse([]byte(changed)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: error %v does not say %q", tt.changed, err, tt.want)
		}
	}
}
