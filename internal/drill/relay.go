package drill

import (
	"bytes"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"
)

// relay is a line between a worker and an arbiter that can be harmed. It
// copies bytes and understands only enough of them to know which call is on.
type relay struct {
	t        *T
	listener net.Listener
	wg       sync.WaitGroup

	mu       sync.Mutex
	upstream string
	links    map[*link]struct{}
	hole     [2]chan struct{} // not nil: nothing passes in that direction until it is closed
	delay    time.Duration
	swallow  map[string]int // call → how many of its good answers to lose
	lost     int            // answers lost so far
	flaky    *rand.Rand     // not nil: calls are cut at random
	share    float64        // of calls that are cut
	dice     *rand.Rand     // not nil: pieces are lost at random, and sent again
	loss     float64        // of pieces that are lost
	watched  *lineWatch     // not nil: what passes is looked at
}

type direction int

// The directions of a relay.
const (
	requests direction = iota
	answers
)

// link is one connection through the relay.
type link struct {
	client, server net.Conn
	call           string    // the call that is on
	cutAt          int       // bytes of the answer after which to cut; -1: never
	asked          time.Time // since when an answer is waited for
}

// relay starts a line to upstream, an address or the path of a socket.
func (t *T) relay(upstream string) *relay {
	var lc net.ListenConfig
	l, err := lc.Listen(t.ctx, "tcp", "127.0.0.1:0")
	t.must(err, "relay")
	r := &relay{t: t, listener: l, upstream: upstream, links: map[*link]struct{}{}, swallow: map[string]int{}}
	r.wg.Go(r.accept)
	t.cleanup(r.close)
	return r
}

func (r *relay) url() string { return "http://" + r.listener.Addr().String() }

func (r *relay) accept() {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			return // closed
		}
		r.wg.Go(func() { r.carry(c) })
	}
}

func (r *relay) carry(c net.Conn) {
	r.mu.Lock()
	to := r.upstream
	r.mu.Unlock()
	dialer := net.Dialer{Timeout: 5 * time.Second}
	network := "tcp"
	if strings.HasPrefix(to, "/") {
		network = "unix"
	}
	s, err := dialer.DialContext(r.t.ctx, network, to)
	if err != nil {
		_ = c.Close()
		return
	}
	l := &link{client: c, server: s, cutAt: -1}
	r.mu.Lock()
	r.links[l] = struct{}{}
	r.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { r.pump(l, c, s, requests) })
	both.Go(func() { r.pump(l, s, c, answers) })
	both.Wait()
	r.mu.Lock()
	delete(r.links, l)
	r.mu.Unlock()
}

func (l *link) cut() {
	_ = l.client.Close() // either may be closed already
	_ = l.server.Close()
}

// pump copies one direction until an end closes, which closes the other.
func (r *relay) pump(l *link, from, to net.Conn, dir direction) {
	defer l.cut()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if !r.pass(l, buf[:n], dir) {
				return
			}
			r.look(l, buf[:n], dir)
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

var (
	callPrefix = []byte("POST /v1/worker/")
	goodAnswer = []byte("HTTP/1.1 200")
)

// pass waits while nothing passes, and says whether this piece may.
func (r *relay) pass(l *link, piece []byte, dir direction) bool {
	for {
		r.mu.Lock()
		hole, delay := r.hole[dir], r.delay+r.sentAgain()
		r.mu.Unlock()
		if hole == nil {
			if delay > 0 {
				r.t.wait(delay)
			}
			break
		}
		select {
		case <-hole:
		case <-r.t.ctx.Done():
			return false
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if dir == requests {
		if rest, ok := bytes.CutPrefix(piece, callPrefix); ok {
			call, _, _ := bytes.Cut(rest, []byte(" "))
			l.call, l.cutAt = string(call), -1
			if r.flaky != nil && r.flaky.Float64() < r.share {
				if r.flaky.IntN(2) == 0 {
					r.lost++
					return false // before it has arrived
				}
				l.cutAt = r.flaky.IntN(200) // in the answer
			}
		}
		return true
	}
	if l.cutAt >= 0 && len(piece) > l.cutAt {
		r.lost++
		return false
	}
	if r.swallow[l.call] > 0 && bytes.HasPrefix(piece, goodAnswer) {
		r.swallow[l.call]--
		r.lost++
		return false
	}
	return true
}

// loseAnswers makes the next n good answers of a call vanish: the connection
// is cut after the arbiter has committed and before the worker has heard.
func (r *relay) loseAnswers(call string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.swallow[call] = n
}

func (r *relay) lostSoFar() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}

// block lets nothing pass in the directions, without a word to either end.
func (r *relay) block(dirs ...direction) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range dirs {
		if r.hole[d] == nil {
			r.hole[d] = make(chan struct{})
		}
	}
}

// heal lets everything pass again, what was held back first.
func (r *relay) heal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for d := range r.hole {
		if r.hole[d] != nil {
			close(r.hole[d])
			r.hole[d] = nil
		}
	}
	r.flaky, r.dice, r.delay = nil, nil, 0
}

// slow delays every piece.
func (r *relay) slow(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delay = d
}

// lossy loses a share of the packets. Neither end sees that but by the time that
// it takes to send them again.
func (r *relay) lossy(share float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loss, r.dice = share, rand.New(rand.NewPCG(r.t.Seed, 0x1055))
}

// sentAgain is by how much a piece is late that may have been lost, as with TCP:
// 200 ms, and twice as long each further time. Needs r.mu.
func (r *relay) sentAgain() (late time.Duration) {
	if r.dice == nil {
		return 0
	}
	for again := 200 * time.Millisecond; r.dice.Float64() < r.loss; again *= 2 {
		late += again
	}
	return late
}

// flakyShare cuts a share of the calls, at random places.
func (r *relay) flakyShare(share float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.share, r.flaky = share, rand.New(rand.NewPCG(r.t.Seed, 0xf1a))
}

// point sends new connections elsewhere and cuts the old ones, as a balancer
// does that has noticed.
func (r *relay) point(upstream string) {
	r.mu.Lock()
	r.upstream = upstream
	r.mu.Unlock()
	r.cutAll()
}

func (r *relay) cutAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.links {
		l.cut()
	}
}

func (r *relay) close() {
	_ = r.listener.Close()
	r.heal()
	gone := make(chan struct{})
	go func() { r.wg.Wait(); close(gone) }()
	for {
		r.cutAll() // again: one may just have been accepted
		select {
		case <-gone:
			return
		case <-r.t.Clock.After(20 * time.Millisecond):
		}
	}
}
