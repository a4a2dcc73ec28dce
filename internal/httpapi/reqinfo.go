package httpapi

import (
	"context"
	"log/slog"
	"sync"

	"github.com/gavel-oj/gavel/internal/auth"
)

// reqInfo is what the layers of one request tell each other: the outermost
// makes it, the others fill it, the access log reads it.
type reqInfo struct {
	requestID string
	bodyLimit int64
	body      *guardedBody

	mu        sync.Mutex
	principal auth.Principal
	err       error
}

type infoKey struct{}

func withInfo(ctx context.Context, info *reqInfo) context.Context {
	return context.WithValue(ctx, infoKey{}, info)
}

// infoOf never returns nil, so that code can run outside a request.
func infoOf(ctx context.Context) *reqInfo {
	if info, ok := ctx.Value(infoKey{}).(*reqInfo); ok {
		return info
	}
	return &reqInfo{}
}

// fail keeps the error that the answer is about. The first one wins: later
// ones come from answering.
func (i *reqInfo) fail(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.err == nil {
		i.err = err
	}
}

func (i *reqInfo) setPrincipal(p auth.Principal) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.principal = p
}

func (i *reqInfo) attrs() (attrs []slog.Attr, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	attrs = append(attrs, slog.String("request_id", i.requestID))
	if i.principal.Kind != "" {
		attrs = append(attrs, slog.Any("principal", i.principal))
	}
	return attrs, i.err
}
