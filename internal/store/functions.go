package store

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5"
)

// functionFiles are what edge workers and sites call. Each function has one
// definition, which is edited; migrations would have one for every change.
//
//go:embed functions/*.sql
var functionFiles embed.FS

// installFunctions makes the functions in a database whose tables are migrated,
// all or none, when those there are not this program's. Where arbiters of two
// builds have the same schema, the one that started last decides.
func installFunctions(ctx context.Context, cfg *pgx.ConnConfig) error {
	names, err := fs.Glob(functionFiles, "functions/*.sql")
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, name := range names {
		b, err := functionFiles.ReadFile(name)
		if err != nil {
			return err
		}
		text.Write(b)
	}
	sum := sha256.Sum256([]byte(text.String()))
	digest := hex.EncodeToString(sum[:])

	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) // what counts is committed
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// Two that start at once would meet in the catalogue, which waits for nobody.
		if _, err := tx.Exec(ctx, "lock table schema_functions in exclusive mode"); err != nil {
			return err
		}
		var there bool
		if err := tx.QueryRow(ctx, "select exists (select from schema_functions where digest = $1)", digest).Scan(&there); err != nil || there {
			return err
		}
		if _, err := tx.Conn().PgConn().Exec(ctx, text.String()).ReadAll(); err != nil { // many statements at once
			return fmt.Errorf("functions: %w", err)
		}
		_, err := tx.Exec(ctx, `insert into schema_functions (digest) values ($1)
			on conflict (one) do update set digest = excluded.digest, installed_at = now()`, digest)
		return err
	})
}
