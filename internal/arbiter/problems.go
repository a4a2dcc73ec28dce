package arbiter

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/auth"
	"github.com/gavel-oj/gavel/internal/httpapi"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// packageKey is where a package's archive is kept.
func packageKey(digest string) (string, error) {
	name, ok := problem.ArchiveName(digest)
	if !ok {
		return "", apperr.New(apperr.Invalid, "use a digest as given in a lease", "this is not a package digest")
	}
	return "packages/" + name, nil
}

func (a *Arbiter) problemRow(ctx context.Context, name string) (*storedb.ProblemByNameRow, error) {
	row, err := a.q.ProblemByName(ctx, a.db.Pool, name)
	return row, noProblem(err, name)
}

// publishedRow is problemRow without the manifest, which may be large.
func (a *Arbiter) publishedRow(ctx context.Context, name string) (*storedb.PublishedProblemRow, error) {
	row, err := a.q.PublishedProblem(ctx, a.db.Pool, name)
	return row, noProblem(err, name)
}

func noProblem(err error, name string) error {
	if store.IsNoRows(err) {
		return apperr.New(apperr.NotFound, "gavel problem list shows the published ones", "there is no problem%s", apperr.Named(name))
	}
	if err != nil {
		return unavailable(err, "read a problem")
	}
	return nil
}

// Problem implements httpapi.Service.
func (a *Arbiter) Problem(ctx context.Context, name string) (gavelapi.ProblemInfo, error) {
	p, prepared, err := a.preparation(ctx, name, 0)
	if err != nil {
		return gavelapi.ProblemInfo{}, err
	}
	row, err := a.problemRow(ctx, name)
	switch {
	case err == nil:
		info, err := problemInfo(&storedb.ListProblemsRow{
			Name: row.Name, Title: row.Title, Version: row.Version, PackageDigest: row.PackageDigest,
			PublishedAt: &row.PublishedAt, Manifest: row.Manifest, SizeBytes: row.SizeBytes,
		})
		info.Preparation = p
		return info, err
	case apperr.CodeOf(err) != apperr.NotFound || p == nil:
		return gavelapi.ProblemInfo{}, err
	}
	info, err := problemInfo(&storedb.ListProblemsRow{Name: p.Problem, Title: prepared.Title, Manifest: prepared.Manifest, SizeBytes: prepared.SizeBytes})
	info.Preparation = p
	return info, err
}

// Problems implements httpapi.Service. The cursor is the last name of the page before.
func (a *Arbiter) Problems(ctx context.Context, cursor string, limit int) (gavelapi.ProblemList, error) {
	list := gavelapi.ProblemList{Problems: []gavelapi.ProblemInfo{}}
	rows, err := a.q.ListProblems(ctx, a.db.Pool, &storedb.ListProblemsParams{After: cursor, Page: int32(limit) + 1})
	if err != nil {
		return list, unavailable(err, "list problems")
	}
	if len(rows) > limit {
		rows = rows[:limit]
		list.Next = rows[limit-1].Name
	}
	for _, row := range rows {
		info, err := problemInfo(row)
		if err != nil {
			return list, err
		}
		if row.PreparationID != 0 {
			if info.Preparation, _, err = a.preparation(ctx, row.Name, row.PreparationID); err != nil {
				return list, err
			}
		}
		list.Problems = append(list.Problems, info)
	}
	return list, nil
}

func problemInfo(row *storedb.ListProblemsRow) (gavelapi.ProblemInfo, error) {
	m, err := readManifest(row.Manifest)
	if err != nil {
		return gavelapi.ProblemInfo{}, err
	}
	return gavelapi.ProblemInfo{
		Name: row.Name, Title: row.Title, PackageDigest: row.PackageDigest, Version: int(row.Version), Format: m.Format,
		Tests: len(m.Tests), CPUMS: m.Limits.CPUMS, MemoryBytes: m.Limits.MemoryBytes, SizeBytes: row.SizeBytes,
		PublishedAt: utc(row.PublishedAt), Warnings: m.Warnings,
	}, nil
}

// readManifest reads what an import validated before it was stored.
func readManifest(raw []byte) (*problem.Manifest, error) {
	var m problem.Manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("stored manifest: %w", err)
	}
	return &m, nil
}

// title is the English one, else the first by language code.
func title(m *problem.Manifest) string {
	if t := m.Titles["en"]; t != "" {
		return t
	}
	for _, code := range slices.Sorted(maps.Keys(m.Titles)) {
		return m.Titles[code]
	}
	return m.Name
}

// OpenPackage implements httpapi.Service: only packages of jobs that the
// worker holds (I9).
func (a *Arbiter) OpenPackage(ctx context.Context, p auth.Principal, digest string) (httpapi.PackageBlob, error) {
	var none httpapi.PackageBlob
	key, err := packageKey(digest)
	if err != nil {
		return none, err
	}
	may, err := a.q.PackageLeasedTo(ctx, a.db.Pool, &storedb.PackageLeasedToParams{WorkerID: p.WorkerID, Digest: digest})
	if err != nil {
		return none, unavailable(err, "check a lease")
	}
	if !may {
		return none, apperr.New(apperr.Forbidden, "claim a job that needs it", "no lease of this worker needs this package")
	}
	content, size, err := a.cfg.Blobs.Open(ctx, key)
	if err != nil {
		return none, apperr.Wrap(err, apperr.Unavailable, "restore the blob directory from a backup, or import the problem again",
			"the archive of package %s cannot be read", digest)
	}
	return httpapi.PackageBlob{ReadSeekCloser: content, Size: size}, nil
}
