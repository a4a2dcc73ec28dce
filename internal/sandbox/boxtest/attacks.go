package boxtest

import (
	"crypto/rand"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
)

// testAttacks runs the programs that judge themselves.
func (s *suite) testAttacks(t *testing.T) {
	for name, program := range map[string]string{
		"other processes cannot be traced or read":  "trace_others",
		"only the run's processes are visible":      "look_around",
		"the init cannot be meddled with":           "meddle",
		"objects of the kernel are bounded":         "object_bomb",
		"no namespaces of its own":                  "namespaces",
		"no mounts, devices or other roots":         "mounts",
		"no identity, capability or way to get one": "privileges",
		"no administrator's calls":                  "admin_calls",
		"no calls that are mostly attack surface":   "attack_surface",
		"no keyrings":                                      "keyrings",
		"no calls of another architecture":                 "foreign_calls",
		"system settings cannot be changed":                "sysctls",
		"no core dumps, to files or to pipes":              "core_dumps",
		"no descriptor but the three":                      "scan_fds",
		"the program cannot be changed":                    "rewrite_self",
		"nothing of the host is visible, nothing writable": "host_files",
		"devices that programs need work":                  "devices",
		"sockets of other families are refused":            "odd_families",
		"no System V or POSIX inter-process communication": "shared_memory",
	} {
		t.Run(name, func(t *testing.T) { s.run(t, s.spec(program)).held(t) })
	}
	t.Run("the rank among victims of a machine without memory cannot be lowered", func(t *testing.T) {
		s.skipIfWeaker(t, "out-of-memory")
		s.run(t, s.spec("oom_score")).held(t)
	})
	t.Run("descriptors that the worker left open do not arrive", func(t *testing.T) {
		leaky := leakFD(t)
		defer leaky()
		s.runIn(t, s.newBox(t), s.spec("scan_fds")).held(t)
	})
	t.Run("input cannot be written", func(t *testing.T) {
		path := readOnlyFile(t, []byte("input"))
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		spec := s.spec("reopen_stdin")
		spec.Stdin = f
		s.run(t, spec).held(t)
	})
	t.Run("no network, not even the host's loopback", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		s.run(t, s.spec("connect_out", strconv.Itoa(l.Addr().(*net.TCPAddr).Port))).held(t)
	})
	t.Run("sockets of the host are out of reach", func(t *testing.T) {
		name := "boxtest-" + rand.Text()
		l, err := net.Listen("unix", "@"+name)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		s.run(t, s.spec("abstract_socket", name)).held(t)
	})
}

// skipIfWeaker skips what the provider says this machine cannot give.
func (s *suite) skipIfWeaker(t *testing.T, words string) {
	t.Helper()
	if w := s.weaker(words); w != "" {
		t.Skip(w)
	}
}

// weaker is the provider's entry with these words, or empty.
func (s *suite) weaker(words string) string {
	for _, w := range s.provider.Info().Weaker {
		if strings.Contains(w, words) {
			return w
		}
	}
	return ""
}
