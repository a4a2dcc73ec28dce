package language

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestFilesOfASource(t *testing.T) {
	t.Parallel()
	many := []string{"main.c"}
	for i := range MaxFiles {
		many = append(many, fmt.Sprintf("f%d.h", i))
	}
	tests := []struct {
		id    string
		names []string
		index int // -1: fine
		want  string
	}{
		{"c", []string{"main.c", "util.h", "util.c", "data.txt"}, -1, ""},
		{"cpp20", []string{"solution.CPP", "a.hpp"}, -1, ""},
		{"python3", []string{"main.py", "__init__.py"}, 1, "no plain file name"},
		{"java", []string{"Main.java", "Sum.java"}, -1, ""},
		{"c", many[:MaxFiles], -1, ""},
		{"c", many, MaxFiles, "at most 64"},
		{"c", []string{"main.c", "util.h", "Util.H"}, 2, "another file"},
		{"c", []string{"main.c", "Main.c"}, 1, "another file"},
		{"c", []string{"main.h", "main.c"}, 0, "is the main file and no C17"},
		{"c", []string{"", "a.c"}, 0, "no plain file name"},
		{"c", []string{"main.c", "x\n.h"}, 1, "no plain file name"},
		{"c", []string{"main.c", strings.Repeat("x", 65)}, 1, "no plain file name"},
		{"cpp17", []string{"main.cpp", "all.h.gch"}, 1, "means something else"},
		{"cpp17", []string{"main.cpp", "ALL.GCH"}, 1, "means something else"},
		{"go", []string{"main.go", "sum_test.go"}, 1, "means something else"},
		{"java", []string{"Main.java", "module-info.java"}, 1, "means something else"},
		{"python3", []string{"main.py", "sum_test.go"}, -1, ""},
	}
	for _, name := range []string{"..", "../a.h", "a/b.h", `a\b.h`, "/etc/passwd", ".a", "-o", "a b", "é.h", "a\x00"} {
		tests = append(tests, struct {
			id    string
			names []string
			index int
			want  string
		}{"c", []string{"main.c", name}, 1, "no plain file name"})
	}
	for _, tt := range tests {
		err := mustGet(t, tt.id).Files(tt.names...)
		if tt.index < 0 {
			if err != nil {
				t.Errorf("%s %q: %v", tt.id, tt.names, err)
			}
			continue
		}
		f, ok := errors.AsType[*FileError](err)
		if !ok || f.Index != tt.index || !strings.Contains(f.Error(), tt.want) || f.Hint == "" || f.Name != tt.names[tt.index] {
			t.Errorf("%s %q: %#v, want %q of file %d", tt.id, tt.names, err, tt.want, tt.index)
		}
	}
}

func TestReservedNamesAreChecked(t *testing.T) {
	t.Parallel()
	text, err := builtin.ReadFile("data/go.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"[a", "Upper"} {
		_, err := Parse([]byte(strings.Replace(string(text), "*_test.go", bad, 1)))
		if err == nil || !strings.Contains(err.Error(), "reserved") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
