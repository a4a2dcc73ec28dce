package judge

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/gavel-oj/gavel/internal/language"
)

// packageDatabases change with every package that a system installs, upgrades
// or removes, so also with each library and header that a compiler reads and
// that nobody could list beforehand.
var packageDatabases = []string{
	"/var/lib/dpkg/status",
	"/var/lib/rpm/rpmdb.sqlite",
	"/usr/lib/sysimage/rpm/rpmdb.sqlite",
	"/lib/apk/db/installed",
	"/usr/lib/apk/db/installed",
	"/var/lib/pacman/local",
}

// stampOf tells whether any of these files was replaced or written to, without
// reading them: it changes when one does. Files that are not there count as
// such.
func stampOf(paths ...string) string {
	var b strings.Builder
	for _, path := range paths {
		if target, err := filepath.EvalSymlinks(path); err == nil {
			path = target
		}
		fmt.Fprintf(&b, "%q", path)
		if fi, err := os.Stat(path); err == nil {
			if st, ok := fi.Sys().(*syscall.Stat_t); ok {
				fmt.Fprintf(&b, " %d %d %d %d %d %d %d", st.Dev, st.Ino, st.Size, st.Mtim.Sec, st.Mtim.Nsec, st.Ctim.Sec, st.Ctim.Nsec)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// programs are the host's paths of what a language's steps start, which boxes
// show under the same path.
func programs(lang *language.Language) (paths []string) {
	for _, argv := range [][]string{lang.Version.Argv, lang.Compile.Argv, lang.Run.Argv} {
		if len(argv) > 0 && filepath.IsAbs(argv[0]) && !slices.Contains(paths, argv[0]) {
			paths = append(paths, argv[0])
		}
	}
	return paths
}

// toolchainStamp identifies the toolchain of lang as it is now. Not ok means
// that a part is missing, or that it was not asked for its version yet.
func (e *Engine) toolchainStamp(lang *language.Language) (stamp string, ok bool) {
	version, ok := e.versions.get(lang.ID)
	if !ok {
		return "", false
	}
	paths := programs(lang)
	for _, p := range paths {
		if _, err := os.Stat(p); err != nil {
			return "", false
		}
	}
	return version + "\n" + stampOf(append(paths, packageDatabases...)...), true
}
