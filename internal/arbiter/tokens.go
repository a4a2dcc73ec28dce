package arbiter

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/auth"
	"github.com/gavel-oj/gavel/internal/clock"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// Authenticate implements httpapi.Service.
func (a *Arbiter) Authenticate(ctx context.Context, token string) (auth.Principal, error) {
	unknown := apperr.New(apperr.Unauthorized, "check GAVEL_TOKEN, or the worker's token file", "this token is unknown, expired or revoked")
	if kind, ok := auth.KindOf(token); !ok || kind == auth.Invitation {
		return auth.Principal{}, unknown
	}
	hash := auth.Hash(token)
	if p, ok := a.tokens.get(hash); ok {
		return p, nil
	}
	row, err := a.q.TokenByHash(ctx, a.db.Pool, hash[:])
	if store.IsNoRows(err) {
		return auth.Principal{}, unknown
	}
	if err != nil {
		return auth.Principal{}, unavailable(err, "look a token up")
	}
	if row.WorkerDisabled {
		return auth.Principal{}, apperr.New(apperr.Forbidden, "ask an administrator to enable it", "worker %s is disabled", row.WorkerName)
	}
	p := auth.Principal{Kind: auth.Kind(row.Kind), TokenID: row.ID, WorkerName: row.WorkerName}
	if row.WorkerID != nil {
		p.WorkerID = *row.WorkerID
	}
	a.tokens.put(hash, p)
	return p, nil
}

// AdminToken makes a new administrator's token and revokes those made before
// with the same note. The secret is returned once.
func (a *Arbiter) AdminToken(ctx context.Context, note string) (string, error) {
	if _, err := a.q.RevokeTokensByNote(ctx, a.db.Pool, note); err != nil {
		return "", unavailable(err, "revoke the earlier token")
	}
	secret, hash := auth.NewToken(auth.Admin)
	_, err := a.q.InsertToken(ctx, a.db.Pool, &storedb.InsertTokenParams{Kind: string(auth.Admin), Hash: hash[:], Note: note, Pool: "default"})
	if err != nil {
		return "", unavailable(err, "store a token")
	}
	return secret, nil
}

// tokenCache remembers tokens that were good a moment ago, so that claims,
// heartbeats and results do not cost a look-up each. A revoked token is
// therefore refused after tokenTrusted at the latest.
type tokenCache struct {
	clock clock.Clock
	mu    sync.Mutex
	known map[[32]byte]knownToken
}

type knownToken struct {
	principal auth.Principal
	until     time.Time
}

const (
	tokenTrusted = 5 * time.Second
	tokensKept   = 10_000
)

func newTokenCache(c clock.Clock) *tokenCache {
	return &tokenCache{clock: c, known: map[[32]byte]knownToken{}}
}

func (c *tokenCache) get(hash [32]byte) (auth.Principal, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.known[hash]
	if !ok || c.clock.Now().After(k.until) {
		return auth.Principal{}, false
	}
	return k.principal, true
}

func (c *tokenCache) put(hash [32]byte, p auth.Principal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= tokensKept {
		clear(c.known) // only good tokens get in, so this is rare
	}
	c.known[hash] = knownToken{p, c.clock.Now().Add(tokenTrusted)}
}

func (c *tokenCache) forgetWorker(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.known, func(_ [32]byte, k knownToken) bool { return k.principal.WorkerID == id })
}
