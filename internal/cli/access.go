package cli

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/gavel-oj/gavel/internal/cmdline"
)

// DefaultURL is where `gavel up` listens unless told otherwise.
const DefaultURL = "http://127.0.0.1:7272"

// DefaultTokenFile is where `gavel up` leaves the administrator's token,
// relative to where it was started. It is read when no token is given and the
// arbiter is on this machine: another machine never gets it.
var DefaultTokenFile = filepath.Join(".data", "admin-token")

// maxTokenFile bounds what is read as a token: anything longer is another file.
const maxTokenFile = 4096

func (a *App) url() string { return cmp.Or(a.Globals.URL, a.Getenv("GAVEL_URL"), DefaultURL) }

// urlGiven says whether somebody chose the address.
func (a *App) urlGiven() bool { return cmp.Or(a.Globals.URL, a.Getenv("GAVEL_URL")) != "" }

// token finds the token: --token-file, GAVEL_TOKEN, GAVEL_TOKEN_FILE, and the
// default file for an arbiter on this machine. No token is not an error here:
// some calls need none, and the arbiter says so best when one does.
func (a *App) token() (string, error) {
	if a.TokenFile != "" {
		return readToken(a.TokenFile, "--token-file")
	}
	if t := strings.TrimSpace(a.Getenv("GAVEL_TOKEN")); t != "" {
		return t, nil
	}
	if name := a.Getenv("GAVEL_TOKEN_FILE"); name != "" {
		return readToken(name, "GAVEL_TOKEN_FILE")
	}
	if !onThisMachine(a.url()) {
		return "", nil
	}
	t, err := readToken(DefaultTokenFile, "the default token file")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return t, err
}

func onThisMachine(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || (ip != nil && ip.IsLoopback())
}

func readToken(name, what string) (string, error) {
	f, err := cmdline.OpenFile(name)
	if err != nil {
		return "", withCause(err, usage("name a file that holds the token alone", "%s: cannot read %s: %s", what, name, reason(err)))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	if err != nil {
		return "", withCause(err, usage("name a file that holds the token alone", "%s: cannot read %s: %s", what, name, reason(err)))
	}
	token := strings.TrimSpace(string(data))
	if token == "" || len(data) > maxTokenFile || strings.ContainsAny(token, " \n\t") {
		return "", usage("the file holds the token and nothing else", "%s: %s does not hold a token", what, name)
	}
	return token, nil
}

// reason is an error of the system without the name that we print ourselves.
func reason(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}
