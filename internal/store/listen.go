package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/internal/apperr"
)

// Channels of NOTIFY.
const (
	WorkChannel = "gavel_work" // there may be new work; no payload
	DoneChannel = "gavel_done" // a submission is final, by way of the database; its id and its job's
)

// listenProbe bounds how long a note to oneself may take.
const listenProbe = 5 * time.Second

// Listen opens a session that hears the channels. It proves that notes arrive:
// behind a pooler that changes sessions between transactions, LISTEN succeeds
// and nothing ever comes.
func Listen(ctx context.Context, url string, channels ...string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, apperr.New(apperr.Invalid, "", "the database URL cannot be parsed")
	}
	guardConn(cfg, "gavel-listen:0")
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, explainConnect(cfg, err)
	}
	if err := listen(ctx, conn, channels); err != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
		return nil, err
	}
	return conn, nil
}

func listen(ctx context.Context, conn *pgx.Conn, channels []string) error {
	const own = "gavel_probe"
	if _, err := conn.Exec(ctx, `set statement_timeout = 5000; set client_connection_check_interval = 1000;
set tcp_keepalives_idle = 5; set tcp_keepalives_interval = 2; set tcp_keepalives_count = 3; set tcp_user_timeout = 8000;
listen `+own); err != nil {
		return fmt.Errorf("arm listening session: %w", err)
	}
	for _, c := range channels {
		if _, err := conn.Exec(ctx, "listen "+pgx.Identifier{c}.Sanitize()); err != nil {
			return fmt.Errorf("listen: %w", err)
		}
	}
	if _, err := conn.Exec(ctx, "notify "+own); err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	probe, cancel := context.WithTimeout(ctx, listenProbe)
	defer cancel()
	for {
		note, err := conn.WaitForNotification(probe)
		if err != nil {
			return fmt.Errorf("notes do not arrive on this connection (is it a pooler's?): %w", err)
		}
		if note.Channel == own {
			_, err := conn.Exec(ctx, "unlisten "+own)
			return err
		}
	}
}
