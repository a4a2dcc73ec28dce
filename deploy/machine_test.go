package deploy

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gavel-oj/gavel/internal/pgserver/pgbin"
	"github.com/gavel-oj/gavel/internal/testkit"
)

var unitsLog = flag.String("units.log", "", "file for all that the machine of TestUnitsOnAMachine says")

// Units of systemd itself that ours are ordered after or log to.
var systemUnits = []string{
	"basic.target", "sysinit.target", "shutdown.target", "umount.target", "final.target", "poweroff.target", "systemd-poweroff.service",
	"multi-user.target", "network.target", "network-online.target", "sockets.target", "paths.target", "timers.target", "slices.target",
	"local-fs.target", "local-fs-pre.target", "remote-fs.target", "swap.target", "time-sync.target",
	"systemd-journald.service", "systemd-journald.socket", "systemd-journald-dev-log.socket",
}

// offered are the interpreters and compilers that stay: workers test themselves
// at each start, and other languages would only make that longer.
var (
	offered   = []string{"gcc", "bash"}
	compilers = []string{"gcc", "g++", "bash", "python3", "pypy3", "javac", "go", "rustc", "node", "fpc", "ruby", "luac5.4", "mcs", "ghc", "kotlinc", "php"}
)

// machineRoot makes the root of the machine: what an administrator would
// install and write, and links to the programs of this one.
func machineRoot(t *testing.T) string {
	t.Helper()
	m := machine{t, filepath.Join(t.TempDir(), "root")}
	if err := os.CopyFS(m.root, os.DirFS("testdata/machine")); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{
		"boot", "dev", "etc/alternatives", "home", "proc", "root", "run", "srv/postgresql", "sys", "tmp", "var/lib", "var/log", "var/tmp",
		"usr/all-bin", "usr/bin", "usr/include", "usr/lib", "usr/lib64", "usr/libexec", "usr/sbin", "usr/share", "etc/ssl/certs",
	} {
		m.try(os.MkdirAll(m.at(dir), 0o755))
	}
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		m.try(os.Symlink("usr/"+dir, m.at(dir)))
	}
	m.try(os.Symlink("/run", m.at("var/run")))
	for _, dir := range []string{"tmp", "var/tmp"} {
		m.try(os.Chmod(m.at(dir), os.ModeSticky|0o777))
	}
	m.programs()
	m.copied("/etc/ld.so.cache", "etc/ld.so.cache", 0o644)
	for _, unit := range systemUnits {
		m.copied("/usr/lib/systemd/system/"+unit, "etc/systemd/system/"+unit, 0o644)
	}
	ours, err := filepath.Glob("systemd/*.service")
	if err != nil || len(ours) == 0 {
		t.Fatal("no units", err)
	}
	for _, unit := range ours {
		m.copied(unit, "etc/systemd/system/"+filepath.Base(unit), 0o644)
	}
	m.keys()
	m.certificate()
	m.cluster()
	return m.root
}

type machine struct {
	t    *testing.T
	root string
}

func (m machine) at(name string) string { return filepath.Join(m.root, name) }

func (m machine) try(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m machine) write(name string, content []byte, mode os.FileMode) {
	m.t.Helper()
	m.try(os.WriteFile(m.at(name), content, mode))
	m.try(os.Chmod(m.at(name), mode))
}

func (m machine) copied(from, to string, mode os.FileMode) {
	m.t.Helper()
	raw, err := os.ReadFile(from)
	m.try(err)
	m.write(to, raw, mode)
}

func (m machine) programs() {
	m.t.Helper()
	entries, err := os.ReadDir("/usr/bin")
	m.try(err)
	for _, e := range entries {
		if name := e.Name(); !slices.Contains(compilers, name) || slices.Contains(offered, name) {
			m.try(os.Symlink("../all-bin/"+name, m.at("usr/bin/"+name)))
		}
	}
	bin, err := testkit.Programs()
	m.try(err)
	m.t.Cleanup(testkit.RemovePrograms)
	for _, name := range []string{"gavel", "gavel-worker"} {
		_ = os.Remove(m.at("usr/bin/" + name))
		m.copied(filepath.Join(bin, name), "usr/bin/"+name, 0o755)
	}
	self, err := os.Executable()
	m.try(err)
	m.copied(self, "srv/units", 0o755)
}

// keys are those of the tunnel: the server's, and that of the machine at home.
func (m machine) keys() {
	m.t.Helper()
	for name, public := range map[string]string{"srv/host-key": "etc/gavel/tunnel-known-hosts", "etc/gavel/tunnel-key": "srv/authorized-key"} {
		_, private, err := ed25519.GenerateKey(rand.Reader)
		m.try(err)
		block, err := ssh.MarshalPrivateKey(private, "")
		m.try(err)
		m.write(name, pem.EncodeToMemory(block), 0o600)
		signer, err := ssh.NewSignerFromKey(private)
		m.try(err)
		line := ssh.MarshalAuthorizedKey(signer.PublicKey())
		if strings.HasSuffix(public, "known-hosts") {
			line = append([]byte("127.0.0.1 "), line...)
		}
		m.write(public, line, 0o600)
	}
	for _, secret := range []string{"database-url", "pgpass", "edge-worker.env"} {
		m.try(os.Chmod(m.at("etc/gavel/"+secret), 0o600))
	}
}

// certificate is the arbiter's, and the only one that the machine trusts.
func (m machine) certificate() {
	m.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	m.try(err)
	cert, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "judge"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotAfter: time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}, &x509.Certificate{Subject: pkix.Name{CommonName: "judge"}}, key.Public(), key)
	m.try(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	m.try(err)
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	m.write("etc/gavel/tls.crt", public, 0o644)
	m.write("etc/ssl/certs/ca-certificates.crt", public, 0o644)
	m.write("etc/gavel/tls.key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600)
}

// cluster is an empty one: PostgreSQL's initdb takes long in the machine.
func (m machine) cluster() {
	m.t.Helper()
	dir := m.at("srv/cluster")
	m.try(os.Mkdir(dir, 0o700))
	const nobody = 65534 // initdb refuses to run as root
	m.try(os.Chown(dir, nobody, nobody))
	for at := m.root; at != "/"; at = filepath.Dir(at) {
		if fi, err := os.Stat(at); err != nil || fi.Mode().Perm()&0o001 == 0 {
			m.try(os.Chmod(at, 0o755)) // t.TempDir is closed to others
		}
	}
	init := exec.CommandContext(m.t.Context(), filepath.Join(postgresPrograms(m.t), "initdb"),
		"-D", dir, "-U", "postgres", "--auth-local=trust", "--auth-host=scram-sha-256", "--no-sync", "--encoding=UTF8", "--locale=C")
	init.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	init.Dir = "/"
	if out, err := init.CombinedOutput(); err != nil {
		m.t.Fatalf("initdb: %v\n%s", err, out)
	}
}

func postgresPrograms(t *testing.T) string {
	t.Helper()
	found, err := pgbin.Find(t.Context(), pgbin.Options{})
	if err != nil {
		testkit.Missing(t, testkit.PG, "%v", err)
	}
	return found[0].Dir
}
