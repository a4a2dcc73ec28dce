package arbitertest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/internal/problem"
)

// AddPackage stores a package with so many tests, each with an input of
// inputBytes, and returns its digest. seed makes it differ from others.
func (a *Arbiter) AddPackage(t testing.TB, seed string, tests, inputBytes int) string {
	t.Helper()
	m := &problem.Manifest{
		Schema: 1, Name: "p-" + seed, Titles: map[string]string{"en": seed}, Format: "icpc-2025-09",
		Limits: problem.Limits{
			CPUMS: 1000, MemoryBytes: 256 << 20, OutputBytes: 64 << 20, CodeBytes: 1 << 20, Processes: 64,
			ValidationCPUMS: 10000, ValidationMemoryBytes: 1 << 30, ValidationOutputBytes: 1 << 20,
		},
		Checker: problem.Checker{Kind: problem.CheckerTokens},
	}
	files := fstest.MapFS{}
	add := func(path string, data []byte) {
		sum := sha256.Sum256(data)
		files[path] = &fstest.MapFile{Data: data}
		m.Files = append(m.Files, problem.File{Path: path, SizeBytes: int64(len(data)), SHA256: hex.EncodeToString(sum[:])})
	}
	for i := range tests {
		name := fmt.Sprintf("secret/%02d", i)
		// Not compressible, so that sizes mean what they say.
		var in []byte
		for block := sha256.Sum256([]byte(seed + name)); len(in) < inputBytes; block = sha256.Sum256(block[:]) {
			in = append(in, block[:]...)
		}
		add("data/"+name+".ans", []byte(seed))
		add("data/"+name+".in", in[:inputBytes])
		m.Tests = append(m.Tests, problem.Test{Name: name, Input: "data/" + name + ".in", Answer: "data/" + name + ".ans"})
	}
	var buf bytes.Buffer
	if err := problem.WriteArchive(&buf, m, files); err != nil {
		t.Fatal(err)
	}
	digest := problem.Digest(m)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.packages[digest] = buf.Bytes()
	return digest
}

// Forget removes a package, as an arbiter that lost its file.
func (a *Arbiter) Forget(digest string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.packages, digest)
}

// Client serves the arbiter over pipes in memory, which works inside a
// testing/synctest bubble, and returns a client for it. Both end with the test.
func (a *Arbiter) Client(t testing.TB, opts client.Options) *client.Client {
	t.Helper()
	l := &pipes{accept: make(chan net.Conn), closed: make(chan struct{})}
	srv := &http.Server{Handler: a, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute}
	served := make(chan struct{})
	go func() { defer close(served); _ = srv.Serve(l) }()
	opts.HTTP = &http.Client{Transport: &http.Transport{DialContext: l.dial, MaxIdleConnsPerHost: 4}}
	c, err := client.New("http://arbiter.test", Token, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		_ = srv.Close()
		<-served
	})
	return c
}

// pipes is a listener of net.Pipe connections.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.accept <- there:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return addr{} }

type addr struct{}

func (addr) Network() string { return "pipe" }
func (addr) String() string  { return "arbiter.test" }
