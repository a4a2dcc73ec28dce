package icpc

import (
	"fmt"
	"strings"

	"github.com/gavel-oj/gavel/internal/apperr"
)

// iniName is DOMjudge's own settings file.
const iniName = "domjudge-problem.ini"

// readINI reads DOMjudge's settings: key = value lines, values perhaps quoted.
// Where it repeats problem.yaml, both must agree; the names are its own.
func (im *importer) readINI() error {
	b, err := readSmall(im.fsys, iniName, maxConfigBytes)
	if err != nil {
		return err
	}
	if err := checkText(iniName, b); err != nil {
		return err
	}
	for i, line := range strings.Split(string(trimBOM(b)), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.ContainsAny(line[:1], ";#[") {
			continue
		}
		place := fmt.Sprintf("%s:%d", iniName, i+1)
		key, val, ok := strings.Cut(line, "=")
		if !ok {
			return apperr.New(apperr.Invalid, "write key = value", "%q is not a setting", cut(line)).At(place)
		}
		if err := im.iniKey(place, strings.TrimSpace(key), unquote(strings.TrimSpace(val))); err != nil {
			return err
		}
	}
	return nil
}

func (im *importer) iniKey(place, key, val string) error {
	c := im.conf
	limit := func(to *given, unit string, scale, limit int64) error {
		fail := func(hint, format string, args ...any) error {
			return apperr.New(apperr.Invalid, hint, key+": "+format, args...).At(place)
		}
		n, err := scaleDecimal(val, unit, scale, limit, fail)
		if err != nil {
			return err
		}
		return to.set(n, val+" "+unit, place)
	}
	switch key {
	case "short-name", "probid":
		c.shortName = val
	case "name":
		c.title = val
	case "timelimit":
		return limit(&c.limits.time, "s", millisPerSec, maxTimeMS)
	case "memlimit":
		return limit(&c.limits.memory, "KiB", domjudgeKBytes, maxLimitBytes)
	case "outputlimit":
		return limit(&c.limits.output, "KiB", domjudgeKBytes, maxLimitBytes)
	case "special_run", "special_compare":
		if val != "" {
			return apperr.New(apperr.Unsupported, "put the program into the package and set validation: custom", "%s names a program of a DOMjudge installation, which is not in the package", key).At(place)
		}
	case "special_compare_args":
		c.validatorFlags, c.flagsAt = strings.Fields(val), place
	case "externalid", "points", "color", "allow_submit", "allow_judge", "cid", "origname":
	default:
		im.warn.add("%s: %s: the key is not known and has no effect", place, cut(key))
	}
	return nil
}

func unquote(s string) string {
	if len(s) >= 2 && (s[0] == '\'' || s[0] == '"') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}

func cut(s string) string {
	if len(s) > 60 {
		s = s[:57] + "…"
	}
	return strings.ToValidUTF8(s, "\ufffd")
}
