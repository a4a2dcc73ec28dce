package linuxbox

import (
	"encoding/json"
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// Ids inside every box. Both map to unprivileged ids of the host that no
// other slot of this provider uses.
const (
	boxRootUID = 0
	boxUserUID = 1000
	boxUserGID = 1000
)

// setup is the body of msgSetup. It is sent once per slot, so clarity weighs
// more than speed here and it is JSON. The v1 `tasks` files of the slot's
// cgroups travel beside it.
type setup struct {
	// ReadOnly lists host directories and files to show under their own name.
	ReadOnly []string `json:"read_only"`
	// OneID says that the box has one user for init and program, the worker's
	// own: it does not run as root. See oneid.go.
	OneID bool `json:"one_id,omitempty"`
	// Polled says that there are no cgroups: the init looks at what the
	// processes use. See poll.go.
	Polled bool `json:"polled,omitempty"`
	// CPU is the one that programs and those who watch them are pinned to.
	CPU *int `json:"cpu,omitempty"`
	// Weak turns protections off, by name. Only tests set it, to show that a
	// protection's test fails without the protection.
	Weak []string `json:"weak,omitempty"`
}

// Names for setup.Weak.
const (
	weakSeccomp   = "seccomp"   // no filter
	weakHideProc  = "hideproc"  // /proc without hidepid
	weakScratch   = "scratch"   // scratch file systems are not replaced
	weakReap      = "reap"      // left-over processes are not killed
	weakCloseFDs  = "closefds"  // descriptors of the worker are not closed
	weakNestedNS  = "nestedns"  // nested namespaces allowed
	weakIPC       = "ipc"       // System V and POSIX IPC usable
	weakCPUWatch  = "cpuwatch"  // CPU limit not enforced while running
	weakOpenat2   = "openat2"   // copy-out opens files naively
	weakCore      = "core"      // core dumps allowed
	weakReadOnly  = "readonly"  // mounts into the box writable
	weakProcesses = "processes" // no limit on processes
	weakOutput    = "output"    // output limit not enforced
)

func (s *setup) weak(name string) bool { return slices.Contains(s.Weak, name) }

// hello is the body of msgHello: empty Op means that the box stands.
type hello struct {
	Op     string   `json:"op,omitempty"`
	Hint   string   `json:"hint,omitempty"`
	Err    string   `json:"err,omitempty"`
	Errno  int      `json:"errno,omitempty"`
	Weaker []string `json:"weaker,omitempty"`
}

// stepError is a failure of building a box, with the step and a hint.
type stepError struct {
	op, hint string
	err      error
}

func (e *stepError) Error() string { return e.op + ": " + e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

func step(op, hint string, err error) error {
	if err == nil {
		return nil
	}
	return &stepError{op: op, hint: hint, err: err}
}

func helloFromError(err error) *hello {
	h := &hello{Op: "setup", Err: err.Error()}
	if se, ok := errors.AsType[*stepError](err); ok {
		h.Op, h.Hint = se.op, se.hint
		h.Err = se.err.Error()
	}
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		h.Errno = int(errno)
	}
	return h
}

func packJSON(kind byte, v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain structs of ours: a programmer's mistake
	}
	return append([]byte{kind}, body...)
}
