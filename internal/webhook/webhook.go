// Package webhook sends one signed message to somebody's endpoint, according
// to Standard Webhooks (https://www.standardwebhooks.com): the headers
// webhook-id, webhook-timestamp and webhook-signature, the last an HMAC-SHA256
// over id, time and body. When to try again is decided here; what was tried is
// remembered by the caller.
//
// An endpoint is an address that an operator typed in, and the arbiter stands
// inside a network: so nothing is sent to addresses that are not public unless
// that was allowed for the whole arbiter, whatever name they hide behind; no
// redirect is followed, no proxy asked, and of the answer only the status is
// looked at.
package webhook

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const (
	// Timeout bounds one attempt as a whole.
	Timeout = 10 * time.Second
	// MaxBody bounds what is sent.
	MaxBody = 64 << 10
	// maxAnswer is how much of an answer is read, so that the connection can
	// end in order; more is cut off.
	maxAnswer = 4 << 10
)

// Message is one message to one endpoint.
type Message struct {
	ID  string // the same at every attempt
	URL string
	// Secrets sign it, as whsec_…: the newest, and those before it that go on
	// for a while. Whoever verifies needs one of them.
	Secrets []string
	Body    []byte // JSON
}

// Sender sends messages. It is safe for concurrent use.
type Sender struct {
	client  *http.Client
	agent   string
	private bool
}

// errPrivate is in the error of a message to an address that is not public.
var errPrivate = errors.New("the address is not a public one; allow it with webhook_private")

// New makes a sender; private allows addresses that are not public.
func New(private bool, agent string) *Sender {
	dialer := &net.Dialer{Timeout: Timeout}
	if !private {
		// Here, after the name was resolved: a check of the name would be
		// passed by one that resolves to something else a moment later.
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			ap, err := netip.ParseAddrPort(address)
			if err != nil || !Public(ap.Addr()) {
				return errPrivate
			}
			return nil
		}
	}
	return &Sender{agent: agent, private: private, client: &http.Client{
		Timeout: Timeout,
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSHandshakeTimeout: Timeout, ResponseHeaderTimeout: Timeout,
			DisableKeepAlives: true, MaxResponseHeaderBytes: maxAnswer,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// notPublic are blocks that Go's own predicates do not name.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),       // this network
	netip.MustParsePrefix("100.64.0.0/10"),   // behind a provider's NAT
	netip.MustParsePrefix("192.0.0.0/24"),    // protocol assignments
	netip.MustParsePrefix("198.18.0.0/15"),   // benchmarks
	netip.MustParsePrefix("240.0.0.0/4"),     // reserved, broadcast
	netip.MustParsePrefix("64:ff9b::/96"),    // IPv4 behind a translator
	netip.MustParsePrefix("64:ff9b:1::/48"),  // the same, local
	netip.MustParsePrefix("2002::/16"),       // IPv4 within 6to4
	netip.MustParsePrefix("2001::/32"),       // IPv4 within Teredo
	netip.MustParsePrefix("fec0::/10"),       // site-local, of old
	netip.MustParsePrefix("2001:db8::/32"),   // documentation
	netip.MustParsePrefix("192.0.2.0/24"),    // documentation
	netip.MustParsePrefix("198.51.100.0/24"), // documentation
	netip.MustParsePrefix("203.0.113.0/24"),  // documentation
}

// Public says whether an address may belong to a stranger on the internet.
func Public(a netip.Addr) bool {
	a = a.Unmap()
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	for _, p := range notPublic {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// CheckURL says what is wrong with an endpoint's address; "" when nothing is.
func CheckURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "it is not like https://example.org/hooks"
	case u.User != nil:
		return "it contains a name or password; the signature says who sends"
	case u.Fragment != "":
		return "it contains a fragment"
	}
	return ""
}

// lookup bounds how long Refused asks for the addresses of a name.
const lookup = 2 * time.Second

// Refused says whether nothing would be sent to an endpoint as its name
// resolves now, because no address of it is public: for whoever adds it, who
// would else learn of it from the first message. A name that does not resolve
// may do so later, and is not refused.
func (s *Sender) Refused(ctx context.Context, text string) bool {
	u, err := url.Parse(text)
	if err != nil || s.private {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, lookup)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	return err == nil && !slices.ContainsFunc(addresses, Public)
}

// NewSecret makes a secret to sign with.
func NewSecret() string {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails, by its documentation
	return "whsec_" + base64.StdEncoding.EncodeToString(key)
}

// sign makes one signature a secret, with spaces between them.
func (m Message) sign(now time.Time) (string, error) {
	if len(m.Secrets) == 0 {
		return "", errors.New("there is no secret to sign with")
	}
	var signatures []string
	for _, secret := range m.Secrets {
		hook, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			return "", errors.New("the secret cannot be read")
		}
		signature, err := hook.Sign(m.ID, now, m.Body)
		if err != nil {
			return "", fmt.Errorf("sign: %w", err)
		}
		signatures = append(signatures, signature)
	}
	return strings.Join(signatures, " "), nil
}

// Send makes one attempt at an instant. Anything but a 2xx is an error; status
// is 0 when there was no answer. It may be repeated.
func (s *Sender) Send(ctx context.Context, m Message, now time.Time) (status int, err error) {
	if len(m.Body) > MaxBody {
		return 0, fmt.Errorf("the message has %d bytes, more than %d", len(m.Body), MaxBody)
	}
	signatures, err := m.sign(now)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL, bytes.NewReader(m.Body))
	if err != nil {
		return 0, errors.New("the address cannot be read")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", s.agent)
	req.Header.Set(standardwebhooks.HeaderWebhookID, m.ID)
	req.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	req.Header.Set(standardwebhooks.HeaderWebhookSignature, signatures)
	resp, err := s.client.Do(req)
	if err != nil {
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err // without the address, which may hold a token
		}
		return 0, err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer) // what it says is nobody's business
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return resp.StatusCode, fmt.Errorf("it answered %d", resp.StatusCode)
	}
	return resp.StatusCode, nil
}

// pauses before each further attempt: about a day in all.
var pauses = []time.Duration{
	5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour, 8 * time.Hour,
}

// Attempts is the most that are made of themselves for one message.
const Attempts = 11

// Retry says how long to wait after an attempt, counted from 1, that failed;
// false when there is to be no other: the last was made, or the endpoint says
// that it is gone for good. spread, from 0 up to 1, keeps many from coming at once.
func Retry(attempt, status int, spread float64) (time.Duration, bool) {
	if status == http.StatusGone || attempt < 1 || attempt >= Attempts {
		return 0, false
	}
	pause := pauses[attempt-1]
	return pause + time.Duration(spread*float64(pause)/4), true
}
