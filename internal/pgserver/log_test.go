package pgserver

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestServerLogLevels(t *testing.T) {
	const said = `LOG:  checkpoint starting
ERROR:  duplicate key value violates unique constraint "tokens_hash_key"
DETAIL:  Key (hash)=(canary) already exists.
STATEMENT:  insert into tokens values ('canary')
FATAL:  the database system is starting up
WARNING:  out of ideas
	and of words
PANIC:  could not write to file
DETAIL:  disk on fire

`
	var out bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.MessageKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	l := &logPipe{logger: logger}
	l.read(context.Background(), strings.NewReader(said))
	want := `level=DEBUG severity=log text="checkpoint starting"
level=DEBUG severity=error text="duplicate key value violates unique constraint \"tokens_hash_key\""
level=DEBUG severity=fatal text="the database system is starting up"
level=WARN severity=warning text="out of ideas"
level=WARN severity="" text="and of words"
level=ERROR severity=panic text="could not write to file"
level=ERROR severity=detail text="disk on fire"
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("logged (-want +got):\n%s", diff)
	}
	if strings.Contains(l.lastLines(), "canary") {
		t.Errorf("a stored value is kept for an error message: %s", l.lastLines())
	}
	if !strings.HasSuffix(l.lastLines(), "PANIC:  could not write to file | DETAIL:  disk on fire") {
		t.Errorf("last lines %q", l.lastLines())
	}
}
