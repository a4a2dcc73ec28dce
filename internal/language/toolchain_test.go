package language

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestToolchainsOfAFileAreChecked(t *testing.T) {
	t.Parallel()
	good, err := builtin.ReadFile("data/c.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const limits = "limits: {cpu_ms: 1000, wall_ms: 1000, memory_bytes: 1048576, file_bytes: 1048576, disk_bytes: 1048576, processes: 1}"
	for more, want := range map[string]string{
		"mounts: [{path: /etc/java-*-openjdk, optional: true}, {path: /var/lib/ghc}, {path: /opt/k/bin}]": "",
		"mounts: [{path: etc/java}]":                               "not a clean absolute path",
		"mounts: [{path: /etc/../root}]":                           "not a clean absolute path",
		"mounts: [{path: /etc/java/}]":                             "not a clean absolute path",
		"mounts: [{path: '/etc/j?va'}]":                            "not a clean absolute path",
		"mounts: [{path: /root/.sdk}]":                             "must lie below one of /etc/, /opt/, /var/lib/",
		"mounts: [{path: /etc}]":                                   "must lie below one of",
		"mounts: [{path: /etc/shadow}]":                            "could show what a box must not see",
		"mounts: [{path: /etc/*}]":                                 "could show what a box must not see",
		"mounts: [{path: /etc/sh*w}]":                              "could show what a box must not see",
		"mounts: [{path: /etc/ssl/private}]":                       "could show what a box must not see",
		"mounts: [{path: /var/*/gavel/blobs}]":                     "must lie below one of",
		"mounts: [{path: /var/lib/gavel/blobs}]":                   "could show what a box must not see",
		"mounts: [{path: /var/lib/gavel-worker}]":                  "could show what a box must not see",
		"mounts: [{file: /etc/x}]":                                 "unknown field \"file\"",
		"helpers: {a.txt: x}":                                      "",
		"helpers: {../a.txt: x}":                                   "helpers: file name",
		"helpers: {prepared: x}":                                   "helpers: file name",
		"prepare: {argv: [/usr/bin/sh], " + limits + "}":           "",
		"prepare: {argv: [sh], " + limits + "}":                    "prepare.argv must start",
		"prepare: {argv: [/usr/bin/sh]}":                           "prepare.limits.cpu_ms must be above 0",
		"prepare: {argv: [/usr/bin/sh], env: [x], " + limits + "}": "is not NAME=value",
	} {
		_, err := Parse([]byte(string(good) + more + "\n"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: error %v, want %q", more, err, want)
		}
	}
	_, err = Parse([]byte(strings.Replace(string(good), "  processes: 1\n", "  processes: 1\n  open_files: 100000\n", 1)))
	if err == nil || !strings.Contains(err.Error(), "run.open_files") {
		t.Errorf("open_files: error %v", err)
	}
}

func TestRuntimesAreToldTheirMemoryLimit(t *testing.T) {
	t.Parallel()
	l := *mustGet(t, "java")
	l.Run.Env = []string{"A={memory_mib}MiB"}
	l.Factors.MemoryExtraBytes = 64 << 20
	for memoryMiB, want := range map[int64][2]string{320: {"-Xmx256m", "A=320MiB"}, 65: {"-Xmx1m", "A=65MiB"}, 10: {"-Xmx1m", "A=10MiB"}} {
		argv, env := l.RunArgv("prog.jar", memoryMiB<<20), l.RunEnv(memoryMiB<<20)
		if diff := cmp.Diff(want, [2]string{argv[2], env[len(env)-1]}); diff != "" {
			t.Errorf("%d MiB: %s", memoryMiB, diff)
		}
	}
	if again := l.RunArgv("prog.jar", 1<<30); again[2] != "-Xmx960m" {
		t.Errorf("a run changed the language's own words: %q", again)
	}
}

func TestOpenFilesOfARun(t *testing.T) {
	t.Parallel()
	if got := mustGet(t, "c").RunOpenFiles(); got != DefaultOpenFiles {
		t.Errorf("C: %d", got)
	}
	if got := mustGet(t, "java").RunOpenFiles(); got != 256 {
		t.Errorf("Java: %d", got)
	}
}
