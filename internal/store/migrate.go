package store

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/gavel-oj/gavel/internal/apperr"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migrate brings the database at url to the newest schema. Several arbiters may
// call it at once: a session lock lets one at a time through. A database that
// is newer than this program is refused.
func Migrate(ctx context.Context, url string) error {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return apperr.New(apperr.Invalid, "expected postgres://user@host:port/database or host=… dbname=…",
			"the database URL cannot be parsed")
	}
	guardConn(cfg, "gavel-migrate")
	db := stdlib.OpenDB(*cfg)
	defer db.Close()
	if err := db.PingContext(ctx); err != nil {
		return explainConnect(cfg, err)
	}
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return fmt.Errorf("embedded migrations: %w", err)
	}
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return fmt.Errorf("migration lock: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithSessionLocker(locker))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	current, target, err := provider.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	if current > target {
		return apperr.New(apperr.Conflict, "run the newer gavel, or restore a backup from before the upgrade",
			"the database has schema version %d, this gavel knows versions up to %d", current, target)
	}
	if err := checkRoles(ctx, db, current); err != nil {
		return err
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if err := installFunctions(ctx, cfg); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}
