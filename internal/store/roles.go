package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/internal/apperr"
)

// madeBy are the roles that migrations make, and grant rights to, with the
// version that does. What comes later to the database gets no rights any more.
var madeBy = []struct {
	role    string
	version int64
}{{ArbiterRole, 2}, {"gavel_read", 2}, {EdgeRole, 10}, {"gavel_site", 10}}

// checkRoles refuses to migrate a database from version current on when the
// roles that are still to be given rights are not there and this login may not
// make them. A login that may make roles owns all of them up to PostgreSQL 15,
// pg_execute_server_program included; so it need not, and the error says what
// a superuser has to do once instead.
func checkRoles(ctx context.Context, db *sql.DB, current int64) error {
	var login string
	var create, grant bool // grant: what others have made; from PostgreSQL 16 on only to who made it
	err := db.QueryRowContext(ctx, `select current_user, rolsuper or rolcreaterole,
		rolsuper or rolcreaterole and current_setting('server_version_num')::int < 160000
		from pg_roles where rolname = current_user`).Scan(&login, &create, &grant)
	if err != nil {
		return fmt.Errorf("look up the login: %w", err)
	}
	var commands []string
	for _, m := range madeBy {
		if current >= m.version {
			continue
		}
		var exists, member bool
		err := db.QueryRowContext(ctx, `select count(*) > 0, coalesce(bool_or(pg_has_role(current_user, oid, 'member')), false)
			from pg_roles where rolname = $1`, m.role).Scan(&exists, &member)
		if err != nil {
			return fmt.Errorf("look up role %s: %w", m.role, err)
		}
		if !exists && create {
			continue // it will be a member of what it makes
		}
		if !exists {
			commands = append(commands, fmt.Sprintf("create role %s nologin;", m.role))
		}
		if m.role == ArbiterRole && !member && !grant {
			commands = append(commands, fmt.Sprintf("grant %s to %s;", m.role, pgx.Identifier{login}.Sanitize()))
		}
	}
	if len(commands) == 0 {
		return nil
	}
	return apperr.New(apperr.Forbidden, "have a superuser of the database run, once: "+strings.Join(commands, " "),
		"the login %s may not create the roles of gavel", login)
}
