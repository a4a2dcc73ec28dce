package edge

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/store"
)

// Check makes the worker known, and says what is the matter where that cannot
// be: before a machine proves its languages, which takes a while. What asking
// again cannot mend is a *gavelapi.Problem or an *apperr.Error with another code
// than Unavailable; other errors are worth repeating.
func (c *Client) Check(ctx context.Context) error {
	_, err := c.hello(ctx)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && (pg.Code == "42883" || pg.Code == "42501") {
		return c.whyNoCall(ctx, err)
	}
	return err
}

// whyNoCall says why a login finds no function edge_hello, or may not call it.
func (c *Client) whyNoCall(ctx context.Context, cause error) error {
	var login, database, schemas, usable string
	err := c.cfg.DB.Pool.QueryRow(ctx, `select session_user::text, current_database()::text,
	       coalesce(string_agg(quote_ident(n.nspname), ' or ' order by n.nspname), ''),
	       coalesce(string_agg(quote_ident(n.nspname), ' or ' order by n.nspname)
	                filter (where has_schema_privilege(n.oid, 'usage') and has_function_privilege(p.oid, 'execute')), '')
	  from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace where p.proname = 'edge_hello'`).
		Scan(&login, &database, &schemas, &usable)
	if err != nil {
		return errors.Join(cause, err)
	}
	who := pgx.Identifier{login}.Sanitize()
	switch {
	case schemas == "":
		return apperr.Wrap(cause, apperr.NotFound, "is this gavel's database, and was it migrated (gavel serve does that)?",
			"the database %s has none of gavel's functions for edge workers", database)
	case usable == "":
		return apperr.Wrap(cause, apperr.Forbidden, fmt.Sprintf("as a superuser: grant %s to %s", store.EdgeRole, who),
			"the login %s may not do what an edge worker does in the database %s", login, database)
	}
	return apperr.Wrap(cause, apperr.NotFound, fmt.Sprintf("as a superuser: alter role %s in database %s set search_path = %s", who, pgx.Identifier{database}.Sanitize(), usable),
		"gavel is in the schema %s of the database %s, which is not in the search_path of the login %s", usable, database, login)
}
