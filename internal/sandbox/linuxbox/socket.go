package linuxbox

import (
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"
)

// maxFDs is the kernel's bound for one packet (SCM_MAX_FD) with room to spare.
const maxFDs = 250

// sendPacket writes one packet with descriptors. It never raises SIGPIPE.
func sendPacket(sock int, body []byte, fds ...int) error {
	if len(body) > maxPacketBytes {
		return fmt.Errorf("packet of %d bytes is larger than %d", len(body), maxPacketBytes)
	}
	if len(fds) > maxFDs {
		return fmt.Errorf("%d descriptors in one packet, at most %d", len(fds), maxFDs)
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	for {
		err := unix.Sendmsg(sock, body, oob, nil, unix.MSG_NOSIGNAL)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// receiver owns the buffers of one end of the control channel.
type receiver struct {
	sock int
	buf  []byte
	oob  []byte
}

func newReceiver(sock int) *receiver {
	return &receiver{sock: sock, buf: make([]byte, maxPacketBytes), oob: make([]byte, unix.CmsgSpace(4*maxFDs))}
}

// await waits until there is a packet, or the end of the channel.
func (r *receiver) await(atMost time.Duration) error {
	polls := []unix.PollFd{{Fd: int32(r.sock), Events: unix.POLLIN}}
	deadline := monotonic() + atMost
	for {
		left := deadline - monotonic()
		if left <= 0 {
			return fmt.Errorf("no answer within %s", atMost)
		}
		ts := unix.NsecToTimespec(int64(left))
		n, err := unix.Ppoll(polls, &ts, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("poll: %w", err)
		}
		if n > 0 {
			return nil
		}
	}
}

// next blocks for one packet. The body is valid until the next call; the
// descriptors are close-on-exec and belong to the caller. A closed peer is
// io.EOF.
func (r *receiver) next() (kind byte, body []byte, fds []int, err error) {
	var n, oobn, flags int
	for {
		n, oobn, flags, _, err = unix.Recvmsg(r.sock, r.buf, r.oob, unix.MSG_CMSG_CLOEXEC)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return 0, nil, nil, err
	}
	if oobn > 0 {
		if fds, err = parseRights(r.oob[:oobn]); err != nil {
			return 0, nil, nil, err
		}
	}
	switch {
	case n == 0:
		return 0, nil, nil, io.EOF
	case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		closeFDs(fds)
		return 0, nil, nil, errors.New("packet cut short by the kernel: too many descriptors or bytes")
	}
	return r.buf[0], r.buf[1:n], fds, nil
}

func parseRights(oob []byte) ([]int, error) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var fds []int
	for _, m := range msgs {
		got, err := unix.ParseUnixRights(&m)
		if err != nil {
			closeFDs(fds)
			return nil, err
		}
		fds = append(fds, got...)
	}
	return fds, nil
}

func closeFDs(fds []int) {
	for _, fd := range fds {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}
