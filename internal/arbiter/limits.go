package arbiter

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// saveSettings lets edge workers grant by this arbiter's settings.
func (a *Arbiter) saveSettings(ctx context.Context) error {
	s := a.cfg.Lease
	return a.q.SaveLeaseSettings(ctx, a.db.Pool, &storedb.SaveLeaseSettingsParams{
		Ttl: s.TTL, Heartbeat: s.Heartbeat, Confirm: s.Confirm, AttemptCap: int32(s.AttemptCap), SleepLead: a.cfg.SleepLead,
	})
}

// rules names everything that effective limits depend on beside the package.
func (a *Arbiter) rules() string {
	h := sha256.New()
	fmt.Fprintf(h, "1 %d\n", a.cfg.SourceBytes) // 1: how the limits are computed
	for _, l := range a.cfg.Languages.All() {
		// A package at one, and one at many: a factor and an addition show in them.
		for _, ms := range []int64{1000, 7000} {
			limits, err := language.Effective(problem.Limits{CPUMS: ms, MemoryBytes: ms << 20, OutputBytes: 1, Processes: 1}, l)
			fmt.Fprintln(h, l.ID, limits, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// saveLimits stores what each language that a package allows may use, for those
// who submit by SQL.
func (a *Arbiter) saveLimits(ctx context.Context, digest string, m *problem.Manifest) error {
	p := storedb.SavePackageLanguagesParams{PackageDigest: digest, Rules: a.rules(), Languages: []string{}, Limits: []json.RawMessage{}, SourceBytes: []int64{}}
	source := a.cfg.SourceBytes
	if m.Limits.CodeBytes > 0 {
		source = min(source, m.Limits.CodeBytes)
	}
	for _, lang := range a.cfg.Languages.All() {
		if !lang.In(m.Languages) {
			continue
		}
		limits, err := language.Effective(m.Limits, lang)
		if err != nil {
			return fmt.Errorf("limits of package %s for %s: %w", digest, lang.ID, err)
		}
		p.Languages = append(p.Languages, lang.ID)
		p.Limits = append(p.Limits, mustJSON(wireLimits(limits)))
		p.SourceBytes = append(p.SourceBytes, source)
	}
	if err := a.q.SavePackageLanguages(ctx, a.db.Pool, &p); err != nil {
		return fmt.Errorf("store limits of package %s: %w", digest, err)
	}
	return a.q.DropOtherPackageLanguages(ctx, a.db.Pool, &storedb.DropOtherPackageLanguagesParams{PackageDigest: digest, Rules: p.Rules})
}

// backfillLimits does for packages that were published before, or under other
// rules, what an import does.
func (a *Arbiter) backfillLimits(ctx context.Context) error {
	packages, err := a.q.PackagesWithOtherRules(ctx, a.db.Pool, a.rules())
	if err != nil {
		return fmt.Errorf("read packages: %w", err)
	}
	for _, k := range packages {
		m, err := readManifest(k.Manifest)
		if err == nil {
			err = a.saveLimits(ctx, k.Digest, m)
		}
		if err != nil {
			if ctx.Err() != nil {
				return err
			}
			a.log.Warn("a package has no limits for submitting by SQL", "package_digest", k.Digest, "error", err)
		}
	}
	return nil
}
