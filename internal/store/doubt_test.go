package store_test

import (
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storetest"
)

func TestWhatMayHaveBeenCommittedIsInDoubt(t *testing.T) {
	ctx := t.Context()
	db := open(t, store.Options{})
	_, refused := db.Pool.Exec(ctx, "insert into workers (name) values (null)")
	_, unreached := pgconn.Connect(ctx, "host="+filepath.Join(t.TempDir(), "nobody")+" user=x")
	conn, err := pgx.Connect(ctx, storetest.DB(t))
	if err != nil {
		t.Fatal(err)
	}
	_, ended := conn.Exec(ctx, "select pg_terminate_backend(pg_backend_pid())")
	_, closed := conn.Exec(ctx, "select 1")
	for _, c := range []struct {
		name string
		err  error
		want bool
	}{
		{"no error", nil, false},
		{"refused by the server", fmt.Errorf("grant: %w", refused), false},
		{"no connection to begin with", unreached, false},
		{"the connection is known to be closed", closed, false},
		{"the session was ended meanwhile", ended, true},
		{"the connection broke", fmt.Errorf("grant: %w", io.ErrUnexpectedEOF), true},
	} {
		if c.name != "no error" && c.err == nil {
			t.Errorf("%s: the test made no error", c.name)
		}
		if got := store.InDoubt(c.err); got != c.want {
			t.Errorf("%s (%v): in doubt %v", c.name, c.err, got)
		}
	}
}
