package linuxbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// The control channel carries whole packets (SOCK_SEQPACKET): one kind byte
// and a body. Descriptors travel beside the packet, in the order the body
// implies. A run is one packet each way, so a program costs two wake-ups.
const (
	msgSetup  byte = 1 + iota // host: how to build the box
	msgHello                  // init: box built, or why not
	msgGo                     // host: cgroups are in place
	msgReady                  // init: clean, the next run may start; or a text: why never again
	msgRun                    // host: run this
	msgKill                   // host: end the run for this cause
	msgResult                 // init: how it ended
)

// maxPacketBytes bounds one packet; argv and environment have to fit.
const maxPacketBytes = 128 << 10

var errShortPacket = errors.New("short packet")

// Causes for which a run is ended, in the order of the wire, not of weight.
type cause uint8

const (
	causeNone cause = iota
	causeCPU
	causeWall
	causeMemory
	causeOutput
	causeCancel
	causeAsleep
)

type copyReq struct {
	path     string
	maxBytes int64
}

// runReq is msgRun. Descriptors: stdin, stdout, stderr, then the new meter's
// (see meterFDs), then one per mount.
type runReq struct {
	argv, env, dirs []string
	// keepMounts says that the mounts of the last run are wanted again, as
	// they are; mountPoints is empty then.
	keepMounts  bool
	mountPoints []string
	mountPaths  []string // of the host, instead of descriptors: see setup.OneID
	copyOut     []copyReq

	cpu, wall  time.Duration
	stackBytes int64
	fileBytes  int64
	diskBytes  int64
	diskInodes int64
	openFiles  int

	// Limits of the run's cgroup, for an init that has none: see setup.Polled.
	memoryBytes int64
	processes   int

	newMeter bool // meter descriptors follow
	joins    int  // number of v1 tasks files among them
	intoV2   bool // the v2 leaf directory is among them
}

// outcome is what the init saw of one run (msgResult).
type outcome struct {
	fault    string // empty, or op
	faultErr string
	errno    int

	exitCode, signal int
	fired            cause
	cpu, wall        time.Duration
	starved          time.Duration // see there
	fileLimit        bool          // a file at its size limit was found
	peakBytes        int64         // of memory, when it was polled
	slow             bool          // ending the processes took longer than it should
	clean            bool          // nothing has to be cleaned, and no msgReady follows
	files            []fileOutcome
}

// fileOutcome's descriptor follows in the packet when state is fileOK.
type fileOutcome struct {
	state uint8
	size  int64
}

const (
	fileOK uint8 = iota
	fileMissing
	fileTooLarge
	fileNotRegular
)

type packer struct{ b []byte }

func (p *packer) int(v int64)         { p.b = binary.AppendVarint(p.b, v) }
func (p *packer) str(s string)        { p.int(int64(len(s))); p.b = append(p.b, s...) }
func (p *packer) dur(d time.Duration) { p.int(int64(d)) }
func (p *packer) bool(v bool) {
	if v {
		p.b = append(p.b, 1)
	} else {
		p.b = append(p.b, 0)
	}
}

func (p *packer) strs(list []string) {
	p.int(int64(len(list)))
	for _, s := range list {
		p.str(s)
	}
}

type unpacker struct {
	b   []byte
	err error
}

func (u *unpacker) int() int64 {
	v, n := binary.Varint(u.b)
	if n <= 0 {
		u.fail()
		return 0
	}
	u.b = u.b[n:]
	return v
}

func (u *unpacker) fail() { u.err, u.b = errShortPacket, nil }

func (u *unpacker) str() string {
	n := u.int()
	if n < 0 || n > int64(len(u.b)) {
		u.fail()
		return ""
	}
	s := string(u.b[:n])
	u.b = u.b[n:]
	return s
}

func (u *unpacker) dur() time.Duration { return time.Duration(u.int()) }

func (u *unpacker) bool() bool {
	if len(u.b) == 0 {
		u.fail()
		return false
	}
	v := u.b[0]
	u.b = u.b[1:]
	return v == 1
}

func (u *unpacker) count() int {
	n := u.int()
	if n < 0 || n > int64(len(u.b)) { // each element takes a byte at least
		u.fail()
		return 0
	}
	return int(n)
}

func (u *unpacker) strs() []string {
	n := u.count()
	if n == 0 {
		return nil
	}
	list := make([]string, n)
	for i := range list {
		list[i] = u.str()
	}
	return list
}

func (u *unpacker) end() error {
	if u.err == nil && len(u.b) != 0 {
		return fmt.Errorf("%d bytes too many in packet", len(u.b))
	}
	return u.err
}

func (r *runReq) pack() []byte {
	p := &packer{b: append(make([]byte, 0, 512), msgRun)}
	p.strs(r.argv)
	p.strs(r.env)
	p.strs(r.dirs)
	p.strs(r.mountPoints)
	p.strs(r.mountPaths)
	p.int(int64(len(r.copyOut)))
	for _, c := range r.copyOut {
		p.str(c.path)
		p.int(c.maxBytes)
	}
	p.dur(r.cpu)
	p.dur(r.wall)
	for _, v := range []int64{r.stackBytes, r.fileBytes, r.diskBytes, r.diskInodes, int64(r.openFiles), int64(r.joins), r.memoryBytes, int64(r.processes)} {
		p.int(v)
	}
	p.bool(r.newMeter)
	p.bool(r.intoV2)
	p.bool(r.keepMounts)
	return p.b
}

func unpackRun(b []byte) (*runReq, error) {
	u := &unpacker{b: b}
	r := &runReq{argv: u.strs(), env: u.strs(), dirs: u.strs(), mountPoints: u.strs(), mountPaths: u.strs()}
	if n := u.count(); n > 0 {
		r.copyOut = make([]copyReq, n)
		for i := range r.copyOut {
			r.copyOut[i] = copyReq{path: u.str(), maxBytes: u.int()}
		}
	}
	r.cpu, r.wall = u.dur(), u.dur()
	r.stackBytes, r.fileBytes, r.diskBytes, r.diskInodes = u.int(), u.int(), u.int(), u.int()
	r.openFiles, r.joins = int(u.int()), int(u.int())
	r.memoryBytes, r.processes = u.int(), int(u.int())
	r.newMeter, r.intoV2, r.keepMounts = u.bool(), u.bool(), u.bool()
	return r, u.end()
}

func (o *outcome) pack() []byte {
	p := &packer{b: append(make([]byte, 0, 128), msgResult)}
	p.str(o.fault)
	p.str(o.faultErr)
	for _, v := range []int64{int64(o.errno), int64(o.exitCode), int64(o.signal), int64(o.fired), o.peakBytes} {
		p.int(v)
	}
	p.dur(o.cpu)
	p.dur(o.wall)
	p.dur(o.starved)
	p.bool(o.fileLimit)
	p.bool(o.slow)
	p.bool(o.clean)
	p.int(int64(len(o.files)))
	for _, f := range o.files {
		p.int(int64(f.state))
		p.int(f.size)
	}
	return p.b
}

func unpackOutcome(b []byte) (*outcome, error) {
	u := &unpacker{b: b}
	o := &outcome{fault: u.str(), faultErr: u.str()}
	o.errno, o.exitCode, o.signal, o.fired = int(u.int()), int(u.int()), int(u.int()), cause(u.int())
	o.peakBytes = u.int()
	o.cpu, o.wall, o.starved = u.dur(), u.dur(), u.dur()
	o.fileLimit, o.slow, o.clean = u.bool(), u.bool(), u.bool()
	if n := u.count(); n > 0 {
		o.files = make([]fileOutcome, n)
		for i := range o.files {
			o.files[i] = fileOutcome{state: uint8(u.int()), size: u.int()}
		}
	}
	return o, u.end()
}
