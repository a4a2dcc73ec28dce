package store

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// SQLSTATEs that an operator can do something about.
const (
	codeDiskFull = "53100"
	codeReadOnly = "25006"
	codeNoMemory = "53200"
	codeLocked   = "55P03"
)

// IsUnavailable says whether err means that the database could not be asked or
// that it is unknown whether a write happened, as opposed to a refusal.
func IsUnavailable(err error) bool {
	if err == nil {
		return false
	}
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return !errors.Is(err, pgx.ErrNoRows)
	}
	switch {
	case strings.HasPrefix(pg.Code, "08"), strings.HasPrefix(pg.Code, "53"), strings.HasPrefix(pg.Code, "57"),
		strings.HasPrefix(pg.Code, "58"), strings.HasPrefix(pg.Code, "25"), strings.HasPrefix(pg.Code, "55"),
		strings.HasPrefix(pg.Code, "40"), strings.HasPrefix(pg.Code, "XX"):
		return true
	}
	return false
}

// WhyUnavailable says what is the matter when IsUnavailable, and what to do.
func WhyUnavailable(err error) (why, hint string) {
	pg, _ := errors.AsType[*pgconn.PgError](err)
	switch {
	case pg == nil:
	case pg.Code == codeDiskFull:
		return "the database's disk is full", "make room where PostgreSQL keeps its data; what was answered before is safe"
	case pg.Code == codeReadOnly:
		return "the database takes no writes", "is it a replica, or set to read only? point the database URL at the one that takes writes"
	case pg.Code == codeNoMemory:
		return "the database is out of memory", "give PostgreSQL's machine more memory, or lower its max_connections and work_mem"
	case pg.Code == codeLocked:
		return "another transaction holds what this needs", "try again; if it stays so, somebody has left one open: " +
			"select pid, usename, application_name, xact_start from pg_stat_activity where xact_start < now() - interval '5 s' order by xact_start " +
			"tells whose, and a superuser ends it with select pg_terminate_backend(pid)"
	}
	return "the database is not available", "try again in a moment"
}

// DiskFull says whether the database found its disk full and still does. While
// none of this pool's statements failed for that, it asks nothing; afterwards
// it tries to write until there is room again: rows that need no new page go on
// being written, and would hide it.
func (db *DB) DiskFull(ctx context.Context) bool {
	if !db.full.Load() {
		return false
	}
	err := pgx.BeginFunc(ctx, db.Pool, func(tx pgx.Tx) error {
		// A million bytes of random text, which does not compress.
		_, err := tx.Exec(ctx, `create temporary table room on commit drop as
select string_agg(gen_random_uuid()::text, '') from generate_series(1, 30000)`)
		return err
	})
	if err != nil {
		return true
	}
	db.full.Store(false)
	return false
}
