package auth

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestTokensHaveTheirPrefixAndHash(t *testing.T) {
	for kind, prefix := range map[Kind]string{Admin: "gvl_a_", Site: "gvl_u_", Worker: "gvl_w_", Invitation: "gvl_i_"} {
		secret, hash := NewToken(kind)
		if !strings.HasPrefix(secret, prefix) {
			t.Errorf("%s: token does not start with %s", kind, prefix)
		}
		if hash != Hash(secret) {
			t.Errorf("%s: hash of the secret differs from the returned one", kind)
		}
		if got, ok := KindOf(secret); got != kind || !ok {
			t.Errorf("%s: KindOf says %q, %v", kind, got, ok)
		}
		again, _ := NewToken(kind)
		if again == secret {
			t.Errorf("%s: two tokens are equal", kind)
		}
	}
}

func TestKindOfRefusesWhatIsNoToken(t *testing.T) {
	good, _ := NewToken(Admin)
	for name, s := range map[string]string{
		"empty":                "",
		"no prefix":            good[len("gvl_a_"):],
		"unknown kind":         "gvl_z_" + good[len("gvl_a_"):],
		"cut":                  good[:len(good)-1],
		"longer":               good + "A",
		"lower case":           strings.ToLower(good),
		"newline at the end":   good + "\n",
		"foreign character":    good[:len(good)-1] + "!",
		"prefix and no secret": "gvl_a_",
	} {
		if _, ok := KindOf(s); ok {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestNewTokenOfAnUnknownKindPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	NewToken("root")
}

func TestSecretNeverPrintsItself(t *testing.T) {
	const canary = "gvl_a_CANARYCANARYCANARYCANARYCA"
	s := Secret(canary)
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "token", s, "in", struct{ T Secret }{s})
	js, err := json.Marshal(map[string]any{"t": s, "p": &s})
	if err != nil {
		t.Fatal(err)
	}
	all := log.String() + string(js)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T"} {
		all += fmt.Sprintf(verb, s) + fmt.Sprintf(verb, struct{ T Secret }{s}) + fmt.Sprintf(verb, []Secret{s})
	}
	all += fmt.Errorf("wrapped: %v", s).Error()
	hex := fmt.Sprintf("%x", canary)
	if strings.Contains(all, "CANARY") || strings.Contains(strings.ToLower(all), hex) {
		t.Errorf("secret shows in %s", all)
	}
	if s.Reveal() != canary {
		t.Error("Reveal does not return the secret")
	}
	if Secret("").String() != "" {
		t.Error("an empty secret should look empty")
	}
}

func TestPrincipalLogsItsNameAndNoMore(t *testing.T) {
	var log bytes.Buffer
	l := slog.New(slog.NewTextHandler(&log, nil))
	l.Info("x", "who", Principal{Kind: Worker, TokenID: 7, WorkerID: 3, WorkerName: "w-3"})
	if want := "who.kind=worker who.token_id=7 who.worker=w-3"; !strings.Contains(log.String(), want) {
		t.Errorf("log %q lacks %q", log.String(), want)
	}
}
