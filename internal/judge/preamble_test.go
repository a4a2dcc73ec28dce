package judge

import (
	"strings"
	"testing"
)

func TestOnlyASourceThatBeginsWithTheHeaderUsesIt(t *testing.T) {
	t.Parallel()
	const include = "#include <bits/stdc++.h>\n"
	tests := []struct {
		name, source string
		want         bool
	}{
		{"at once", include + "int main(){}", true},
		{"without an end of line", "#include <bits/stdc++.h>", true},
		{"after blank lines", "\n \t\n\r\n" + include, true},
		{"after a byte order mark", "\xef\xbb\xbf" + include, true},
		{"with Windows line ends", "// x\r\n#include <bits/stdc++.h>\r\nint x;", true},
		{"after a line comment", "// author: ö\n" + include, true},
		{"after block comments", "/* a\n * b */ /**/\n" + include, true},
		{"behind a block comment", "/* a */ #include <bits/stdc++.h>", true},
		{"with blanks", " # \t include\t<bits/stdc++.h>  // all", true},
		{"without blanks", "#include<bits/stdc++.h>", true},
		{"in quotes", "#include \"bits/stdc++.h\"\n", true},

		{"empty", "", false},
		{"after a pragma", "#pragma GCC optimize(\"O3\")\n" + include, false},
		{"after a macro", "#define _GLIBCXX_DEBUG\n" + include, false},
		{"after another header", "#include <vector>\n" + include, false},
		{"after a declaration", "int x;\n" + include, false},
		{"in a condition", "#if 0\n" + include + "#endif\n", false},
		{"another header", "#include <bits/stdc++.hpp>\n", false},
		{"with more behind it", "#include <bits/stdc++.h> int x;", false},
		{"one end of it", "#include <bits/stdc++.h\n", false},
		{"mixed brackets", "#include <bits/stdc++.h\"\n", false},
		{"include_next", "#include_next <bits/stdc++.h>\n", false},
		{"import", "#import <bits/stdc++.h>\n", false},
		{"by digraph", "%:include <bits/stdc++.h>\n", false},
		{"by macro", "#include HEADER\n", false},
		{"in a comment that goes on", "// x \\\n" + include, false},
		{"in a comment that goes on behind a blank", "// x \\ \n" + include, false},
		{"in a comment that goes on in Windows", "// x \\\r\n" + include, false},
		{"in a comment that goes on by trigraph", "// x ??/\n" + include, false},
		{"in a block comment whose end is spliced", "/* *\\\n/ int x; /* */\n" + include, false},
		{"in an open comment", "/* " + include, false},
		{"spliced itself", "#incl\\\nude <bits/stdc++.h>\n", false},
		{"spliced behind", "#include <bits/stdc++.h> \\\n", false},
		{"a lone carriage return", "\r" + include, false},
		{"a form feed", "\f" + include, false},
		{"a NUL byte in a comment", "// \x00\n" + include, false},
	}
	for _, tt := range tests {
		if got := beginsWith([]byte(tt.source), "bits/stdc++.h", true); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
		quoted := strings.Contains(tt.source, "\"bits/")
		if got := beginsWith([]byte(tt.source), "bits/stdc++.h", false); got != (tt.want && !quoted) {
			t.Errorf("%s, without quotes: %t", tt.name, got)
		}
	}
}

func FuzzPreamble(f *testing.F) {
	f.Add([]byte("/* x */ // y\n#include <h>\n"))
	f.Fuzz(func(t *testing.T, source []byte) {
		if beginsWith(source, "h", false) && !strings.Contains(string(source), "<h>") {
			t.Errorf("%q does not name the header", source)
		}
	})
}
