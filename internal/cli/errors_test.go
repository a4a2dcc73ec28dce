package cli

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
)

// A wrong password is told as that, though the same server had been asked for
// TLS before and has none.
func TestTheCauseOfARefusedConnectionIsWhatTheServerSaid(t *testing.T) {
	noTLS := errors.New("server refused TLS connection")
	refused := &pgconn.PgError{Severity: "FATAL", Code: "28P01", Message: "password authentication failed"}
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("ping: %w", errors.Join(noTLS, refused)), "cannot connect: FATAL: password authentication failed (SQLSTATE 28P01)"},
		{fmt.Errorf("ping: %w", noTLS), "cannot connect: server refused TLS connection"},
	} {
		if got := serverError(apperr.Wrap(c.err, apperr.Unavailable, "", "cannot connect")); got.Error() != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestALimitThatTheArbiterRefusesIsToldAsItsFlag(t *testing.T) {
	p := &gavelapi.Problem{
		Status: http.StatusUnprocessableEntity, Detail: "a run has between 1 µs and 10s of CPU time", Hint: "ask for less",
		Errors: []gavelapi.ProblemField{{Location: "body.limits.cpu_us"}},
	}
	e := (&App{Ctx: t.Context()}).explain(aboutFlag(fmt.Errorf("run: %w", p)))
	if e.Code != ExitUsage || e.Message != "--time: a run has between 1 µs and 10s of CPU time" || e.Hint != "ask for less" {
		t.Errorf("%+v", e)
	}
}
