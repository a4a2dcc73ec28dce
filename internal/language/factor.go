package language

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Factor is a multiplier in thousandths, so that a rule such as ×1.1 is exact.
// The zero value is not given and means 1.
type Factor int64

const (
	factorOne Factor = 1000
	maxFactor Factor = 100 * factorOne
)

// ParseFactor reads a decimal such as "3" or "2.5", with at most three
// decimals, above 0 and up to 100.
func ParseFactor(s string) (Factor, error) {
	whole, frac, _ := strings.Cut(s, ".")
	refused := fmt.Errorf("factor %q is not a decimal above 0 and up to %d with at most three decimals", s, maxFactor/factorOne)
	if len(frac) > 3 || strings.HasSuffix(s, ".") {
		return 0, refused
	}
	n, err := strconv.ParseUint(whole+(frac + "000")[:3], 10, 32)
	if err != nil || n == 0 || Factor(n) > maxFactor {
		return 0, refused
	}
	return Factor(n), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *Factor) UnmarshalText(text []byte) error {
	parsed, err := ParseFactor(string(text))
	if err != nil {
		return err
	}
	*f = parsed
	return nil
}

func (f Factor) String() string {
	return strconv.FormatFloat(float64(f.orOne())/float64(factorOne), 'f', -1, 64)
}

func (f Factor) orOne() Factor {
	if f == 0 {
		return factorOne
	}
	return f
}

func (f Factor) times(d time.Duration) time.Duration {
	return d * time.Duration(f.orOne()) / time.Duration(factorOne)
}
