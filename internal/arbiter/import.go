package arbiter

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/auth"
	"github.com/gavel-oj/gavel/internal/blob"
	"github.com/gavel-oj/gavel/internal/httpapi"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/problem/importer"
	"github.com/gavel-oj/gavel/internal/problem/intake"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// ImportProblem implements httpapi.Service: read and check, store the archive,
// then have it prepared, or publish it. Whatever fails, the version that was
// live stays live; an archive that was stored before is found again by its
// digest.
func (a *Arbiter) ImportProblem(ctx context.Context, p auth.Principal, in httpapi.Import, upload *os.File, size int64) (gavelapi.ProblemInfo, error) {
	var none gavelapi.ProblemInfo
	view, err := intake.OpenZip(upload, size)
	if err != nil {
		return none, err
	}
	defer view.Close()
	manifest, files, err := importer.Import(ctx, view, importer.Options{Name: in.Name})
	if err != nil {
		return none, err
	}
	verify := cmp.Or(in.Verify, gavelapi.VerifyAll)
	steps, err := a.prepareSteps(manifest, verify)
	if err != nil && verify != gavelapi.VerifyNone {
		return none, err
	}
	digest := problem.Digest(manifest)
	key, err := packageKey(digest)
	if err != nil {
		return none, err
	}
	archived, err := a.storeArchive(ctx, key, manifest, files)
	if err != nil {
		return none, err
	}
	// Before it is live, so that whoever finds the version finds its limits.
	if err := a.saveLimits(ctx, digest, manifest); err != nil {
		return none, unavailable(err, "store the limits of a package")
	}
	by := p.TokenID
	done, err := a.db.Import(ctx, store.NewImport{
		Package: storedb.InsertPackageParams{Digest: digest, Manifest: problem.Encode(manifest), SizeBytes: archived},
		Name:    manifest.Name, Title: title(manifest), Verify: verify, Steps: steps, Features: prepareFeatures, TokenID: p.TokenID,
		Audit: &storedb.InsertAuditParams{
			TokenID: &by, Action: "problem.publish-unverified", Subject: manifest.Name, Reason: in.Reason,
			Details: mustJSON(map[string]string{"package_digest": digest}),
		},
	})
	if err != nil {
		return none, unavailable(err, "import a problem")
	}
	if l := a.current.Load(); l != nil && len(done.Cancelled) > 0 {
		l.mu.Lock()
		for _, job := range done.Cancelled {
			l.dropJob(job)
		}
		l.mu.Unlock()
		l.poke()
	}
	a.offer(done.Jobs)
	a.watch.changed(preparations)
	info, err := a.Problem(ctx, manifest.Name)
	info.Unchanged = done.Unchanged
	a.log.Info("problem imported", "problem", manifest.Name, "package_digest", digest, "tests", len(manifest.Tests), "verify", verify,
		"preparation_id", done.PreparationID, "unchanged", done.Unchanged)
	return info, err
}

// storeArchive writes the package's archive unless it is there, and returns
// its size.
func (a *Arbiter) storeArchive(ctx context.Context, key string, m *problem.Manifest, files fs.FS) (int64, error) {
	if size, err := a.cfg.Blobs.Stat(ctx, key); err == nil {
		return size, nil
	} else if !errors.Is(err, blob.ErrNotFound) {
		return 0, apperr.Wrap(err, apperr.Unavailable, "check the disk of the blob store", "the package cannot be stored")
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(problem.WriteArchive(w, m, files)) }() // ends with the pipe: Put reads to its end or closes it
	err := a.cfg.Blobs.Put(ctx, key, r)
	r.CloseWithError(errors.New("the store stopped reading"))
	if err != nil {
		if apperr.CodeOf(err) != apperr.Internal {
			return 0, err // the package's fault: a file that is not what its header says
		}
		return 0, apperr.Wrap(err, apperr.Unavailable, "check the disk of the blob store", "the package cannot be stored")
	}
	size, err := a.cfg.Blobs.Stat(ctx, key)
	if err != nil {
		return 0, apperr.Wrap(err, apperr.Unavailable, "check the disk of the blob store", "the package cannot be stored")
	}
	return size, nil
}
