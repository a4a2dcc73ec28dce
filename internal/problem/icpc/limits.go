package icpc

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/problem"
)

// What holds when a package does not say. Those of the format are its own
// typical values; the time limit is derived by running in the format, which an
// importer cannot do.
const (
	defaultTimeMS          = 1000
	defaultMemoryBytes     = 2048 << 20
	defaultOutputBytes     = 8 << 20
	defaultCodeBytes       = 128 << 10
	defaultProcesses       = 64
	defaultValidationMS    = 60_000
	defaultValidationBytes = 2048 << 20
	defaultValidationOut   = 8 << 20
)

// The largest limits that a package may ask for.
const (
	maxTimeMS      = 3600 * 1000
	maxLimitBytes  = 1 << 40 // 1 TiB, for anything measured in bytes
	kib            = 1 << 10
	mib            = 1 << 20
	millisPerSec   = 1000
	domjudgeKBytes = 1 << 10
)

// limitsConfig is what was found. Zero means not given; places are for
// messages about contradictions.
type limitsConfig struct {
	time, memory, output given
	code                 int64
	compileMS, compile   int64
	validationMS         int64
	validation           int64
	validationOut        int64
	resolution           *big.Rat
}

// given is a limit that several files may give.
type given struct {
	value int64
	text  string // as written
	place string
}

// set takes a limit from another place, which must not contradict.
func (g *given) set(value int64, text, place string) error {
	if g.value != 0 && g.value != value {
		return apperr.New(apperr.Invalid, "keep one of them, or make them equal",
			"the limit %s contradicts %s in %s", text, g.text, g.place).At(place)
	}
	if g.value == 0 {
		*g = given{value, text, place}
	}
	return nil
}

func (im *importer) readLimits(v value) error {
	l := &im.conf.limits
	number := func(to *int64, unit string, scale, limit int64) func(value) error {
		return func(v value) (err error) {
			*to, err = v.scaled(unit, scale, limit)
			return err
		}
	}
	shared := func(to *given, unit string, scale, limit int64) func(value) error {
		return func(v value) error {
			n, err := v.scaled(unit, scale, limit)
			if err != nil {
				return err
			}
			text, _ := v.text()
			return to.set(n, text+" "+unit, v.place())
		}
	}
	keys := map[string]func(value) error{
		"memory":             shared(&l.memory, "MiB", mib, maxLimitBytes),
		"output":             shared(&l.output, "MiB", mib, maxLimitBytes),
		"code":               number(&l.code, "KiB", kib, maxLimitBytes),
		"compilation_time":   number(&l.compileMS, "s", millisPerSec, maxTimeMS),
		"compilation_memory": number(&l.compile, "MiB", mib, maxLimitBytes),
		"validation_time":    number(&l.validationMS, "s", millisPerSec, maxTimeMS),
		"validation_memory":  number(&l.validation, "MiB", mib, maxLimitBytes),
		"validation_output":  number(&l.validationOut, "MiB", mib, maxLimitBytes),
		"validation_passes":  nil, // multi-pass only, which is refused by its type
		"time_limit":         shared(&l.time, "s", millisPerSec, maxTimeMS),
	}
	if im.conf.dialect == dialectLegacy {
		keys["time_multiplier"], keys["time_safety_margin"] = nil, nil
	} else {
		keys["time_multipliers"] = func(v value) error {
			return v.each(map[string]func(value) error{"ac_to_time_limit": nil, "time_limit_to_tle": nil}, im.unknownKey)
		}
		keys["time_resolution"] = func(v value) error {
			ms, err := v.scaled("s", millisPerSec, maxTimeMS)
			l.resolution = big.NewRat(ms, 1)
			return err
		}
	}
	if err := v.each(keys, im.unknownKey); err != nil {
		return err
	}
	if r := l.resolution; r != nil && l.time.value != 0 {
		if q := new(big.Rat).Quo(big.NewRat(l.time.value, 1), r); !q.IsInt() {
			im.warn.add("%s: limits.time_limit %s is not a multiple of limits.time_resolution; it is used as written", l.time.place, l.time.text)
		}
	}
	return nil
}

// readTimelimitFile reads .timelimit: one number of seconds.
func (im *importer) readTimelimitFile() error {
	if !im.files.has(timelimitName) {
		return nil
	}
	b, err := readSmall(im.fsys, timelimitName, kib)
	if err != nil {
		return err
	}
	text := strings.TrimSpace(string(trimBOM(b)))
	fail := func(hint, format string, args ...any) error {
		return apperr.New(apperr.Invalid, hint, format, args...).At(timelimitName)
	}
	ms, err := scaleDecimal(text, "s", millisPerSec, maxTimeMS, fail)
	if err != nil {
		return err
	}
	return im.conf.limits.time.set(ms, text+" s", timelimitName)
}

// setLimits fills the manifest's limits.
func (im *importer) setLimits() error {
	l := im.conf.limits
	if l.time.value == 0 {
		im.warn.add("no time limit is given (%s: limits.time_limit); it is %s s, which no submission has been measured against", configName, seconds(defaultTimeMS))
	}
	or := func(n, otherwise int64) int64 {
		if n != 0 {
			return n
		}
		return otherwise
	}
	im.m.Limits = problem.Limits{
		CPUMS:                 or(l.time.value, defaultTimeMS),
		MemoryBytes:           or(l.memory.value, defaultMemoryBytes),
		OutputBytes:           or(l.output.value, defaultOutputBytes),
		CodeBytes:             or(l.code, defaultCodeBytes),
		Processes:             defaultProcesses,
		CompileCPUMS:          l.compileMS,
		CompileMemoryBytes:    l.compile,
		ValidationCPUMS:       or(l.validationMS, defaultValidationMS),
		ValidationMemoryBytes: or(l.validation, defaultValidationBytes),
		ValidationOutputBytes: or(l.validationOut, defaultValidationOut),
	}
	return nil
}

func seconds(ms int64) string {
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%d.%03d", ms/1000, ms%1000), "0"), ".")
}
