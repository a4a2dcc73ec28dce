package store_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storetest"
)

// A program that has other functions than the database makes its own, with
// their rights; one that has the same changes nothing.
func TestFunctionsAreTheStartedProgramsOwn(t *testing.T) {
	url := storetest.DB(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	// state is what a function says, and what makes calling it safe.
	state := func() (said, owner, config, installed string, public bool) {
		t.Helper()
		err := conn.QueryRow(t.Context(), `select coalesce(edge_ended('cancelled', '') ->> 'outcome', ''), c.proowner::regrole::text, coalesce(c.proconfig::text, ''),
			(select installed_at::text from schema_functions), has_function_privilege('pg_monitor', e.oid, 'execute')
			from pg_proc c, pg_proc e where c.oid = 'edge_claim(jsonb)'::regprocedure and e.oid = 'edge_ended(text, text)'::regprocedure`).
			Scan(&said, &owner, &config, &installed, &public)
		if err != nil {
			t.Fatal(err)
		}
		return said, owner, config, installed, public
	}
	said, owner, config, installed, public := state()
	if said != "cancelled" || owner != "gavel_arbiter" || config == "" || public {
		t.Fatalf("%s, owner %s, %s, for everybody %t", said, owner, config, public)
	}
	if err := store.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	if _, _, _, again, _ := state(); again != installed {
		t.Error("the same functions were made anew")
	}
	exec(`create or replace function edge_ended(p_outcome text, p_message text) returns jsonb language sql immutable as 'select ''{"outcome": "old"}''::jsonb'`)
	exec("grant execute on function edge_ended(text, text) to public")
	exec("alter function edge_claim(jsonb) reset search_path")
	exec("update schema_functions set digest = 'those of another program'")
	if err := store.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	if said, owner, config2, _, public := state(); said != "cancelled" || owner != "gavel_arbiter" || config2 != config || public {
		t.Errorf("%s, owner %s, %s, for everybody %t", said, owner, config2, public)
	}
}

// A database of the time when functions were migrations has versions that are no
// files any more.
func TestADatabaseWithMigrationsThatAreGoneIsMigrated(t *testing.T) {
	url := storetest.DB(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, sql := range []string{
		"insert into goose_db_version (version_id, is_applied) values (19, true), (21, true), (29, true)",
		"delete from goose_db_version where version_id >= 30", "drop table schema_functions",
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := conn.QueryRow(t.Context(), "select count(*) from schema_functions").Scan(&n); err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
}
