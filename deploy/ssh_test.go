package deploy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/crypto/ssh"
)

// sshServer is the far end of the tunnel. Like the line that docs/migration.md
// puts into authorized_keys it lets one key forward to the database, and do
// nothing else; the near end is the unit's own ssh.
func sshServer(ctx context.Context) error {
	secret, err := os.ReadFile("/srv/host-key")
	if err != nil {
		return err
	}
	host, err := ssh.ParsePrivateKey(secret)
	if err != nil {
		return err
	}
	allowed, err := os.ReadFile("/srv/authorized-key")
	if err != nil {
		return err
	}
	config := &ssh.ServerConfig{PublicKeyCallback: func(who ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if who.User() != "judgetun" || !bytes.Equal(ssh.MarshalAuthorizedKey(key), allowed) {
			return nil, errors.New("not a key of the tunnel")
		}
		return &ssh.Permissions{}, nil
	}}
	config.AddHostKey(host)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:22")
	if err != nil {
		return err
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			if err := serveSSH(ctx, conn, config); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}()
	}
}

func serveSSH(ctx context.Context, conn net.Conn, config *ssh.ServerConfig) error {
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return err
	}
	go ssh.DiscardRequests(requests) // keep-alives are answered by that
	for offer := range channels {
		var to struct {
			Host       string
			Port       uint32
			OriginHost string
			OriginPort uint32
		}
		if offer.ChannelType() != "direct-tcpip" || ssh.Unmarshal(offer.ExtraData(), &to) != nil || to.Host != "127.0.0.1" || to.Port != 5432 {
			if err := offer.Reject(ssh.Prohibited, "only to the database"); err != nil {
				return err
			}
			continue
		}
		database, err := (&net.Dialer{}).DialContext(ctx, "tcp", "127.0.0.1:5432")
		if err != nil {
			if err := offer.Reject(ssh.ConnectionFailed, err.Error()); err != nil {
				return err
			}
			continue
		}
		channel, requests, err := offer.Accept()
		if err != nil {
			return err
		}
		go ssh.DiscardRequests(requests)
		go func() {
			defer database.Close()
			go func() { _, _ = io.Copy(channel, database); _ = channel.CloseWrite() }()
			_, _ = io.Copy(database, channel)
			_ = channel.Close()
		}()
	}
	return nil
}
