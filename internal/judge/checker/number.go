package checker

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
)

// Guards: a token beyond them is not a number. They keep the cost of one
// comparison in milliseconds whatever a contestant prints. Only a comparison
// that accepts is followed by another one, and such a one costs in proportion
// to the tokens' bytes, not to the exponents written in them.
const (
	maxNumberBytes = 64 << 10
	maxExponent    = 1_000_000
	// maxShiftDigits bounds the power of ten by which exact comparison scales
	// one side. Beyond it 64-bit arithmetic alone decides.
	maxShiftDigits = 4 * maxNumberBytes
)

// number is a token that has the syntax of a decimal number; the text is the
// caller's and must not change while the number is used.
type number struct {
	text     []byte
	exponent int // as written, without the digits after the point
}

// parseNumber accepts [+-]? (digits [. digits?] | . digits) ([eE] [+-]? digits)?
// within the guards. It knows no nan, inf, hexadecimal or digit separators.
func parseNumber(b []byte) (number, bool) {
	if len(b) > maxNumberBytes {
		return number{}, false
	}
	n := number{text: b}
	if len(b) > 0 && (b[0] == '+' || b[0] == '-') {
		b = b[1:]
	}
	whole := digits(b)
	b = b[whole:]
	frac := 0
	if len(b) > 0 && b[0] == '.' {
		frac = digits(b[1:])
		b = b[1+frac:]
	}
	if whole+frac == 0 {
		return number{}, false
	}
	if len(b) == 0 {
		return n, true
	}
	if b[0] != 'e' && b[0] != 'E' {
		return number{}, false
	}
	b = b[1:]
	negative := len(b) > 0 && b[0] == '-'
	if len(b) > 0 && (b[0] == '+' || b[0] == '-') {
		b = b[1:]
	}
	if len(b) == 0 || digits(b) != len(b) {
		return number{}, false
	}
	for _, c := range b {
		n.exponent = n.exponent*10 + int(c-'0')
		if n.exponent > maxExponent {
			return number{}, false
		}
	}
	if negative {
		n.exponent = -n.exponent
	}
	return n, true
}

// digits counts the leading ASCII digits.
func digits(b []byte) int {
	for i, c := range b {
		if c < '0' || c > '9' {
			return i
		}
	}
	return len(b)
}

// decimal is n exactly.
func (n number) decimal() decimal {
	d := decimal{exp: n.exponent, mant: new(big.Int)}
	text := make([]byte, 0, len(n.text))
	point := false
	for _, c := range n.text {
		switch {
		case c == '.':
			point = true
		case c == 'e' || c == 'E':
			d.mant.SetString(string(text), 10)
			return d
		default:
			text = append(text, c)
			if point {
				d.exp--
			}
		}
	}
	d.mant.SetString(string(text), 10)
	return d
}

// decimal is mant × 10^exp.
type decimal struct {
	mant *big.Int
	exp  int
}

// align brings a and b to one exponent; ok is false when that would take too
// large a power of ten.
func align(a, b decimal) (x, y *big.Int, exp int, ok bool) {
	switch shift := a.exp - b.exp; {
	case a.mant.Sign() == 0:
		return a.mant, b.mant, b.exp, true
	case b.mant.Sign() == 0:
		return a.mant, b.mant, a.exp, true
	case shift > maxShiftDigits || -shift > maxShiftDigits:
		return nil, nil, 0, false
	case shift >= 0:
		return scale(a.mant, shift), b.mant, b.exp, true
	default:
		return a.mant, scale(b.mant, -shift), a.exp, true
	}
}

func scale(m *big.Int, tens int) *big.Int {
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(tens)), nil)
	return power.Mul(power, m)
}

// bound is one tolerance in the forms that the comparisons need.
type bound struct {
	text    string
	double  float64
	float   *big.Float
	decimal decimal
	small   small // 0 when it does not fit
}

func parseBound(s string) (*bound, error) {
	n, ok := parseNumber([]byte(s))
	if !ok || n.text[0] == '-' {
		return nil, fmt.Errorf("%.40q is not a decimal number of at least 0", s)
	}
	b := &bound{text: s, float: n.float(), decimal: n.decimal()}
	b.small, _ = n.small()
	b.double, _ = b.float.Float64()
	if math.IsInf(b.double, 0) {
		return nil, errors.New("it is too large")
	}
	return b, nil
}

// tolerance says how far a number may be from the answer; either side is enough.
type tolerance struct{ abs, rel *bound }

func (t tolerance) given() bool { return t.abs != nil || t.rel != nil }

func (t tolerance) String() string {
	switch {
	case t.rel == nil:
		return "absolute " + t.abs.text
	case t.abs == nil:
		return "relative " + t.rel.text
	}
	return "absolute " + t.abs.text + " or relative " + t.rel.text
}

// accepts reports whether b is close enough to a, the answer: exactly, in
// decimals, or in 64-bit floating point. The exact rule makes the edge
// inclusive (1.000001 is within 1e-6 of 1.0); the floating-point one takes
// what equals the answer as far as such a number can say.
func (t tolerance) accepts(a, b number) bool {
	if sure, ok := t.quickly(a, b); sure {
		return ok
	}
	if t.exactlySmall(a, b) {
		return true
	}
	af, bf := a.float(), b.float()
	diff := newFloat().Sub(af, bf)
	diff.Abs(diff)
	largest := newFloat().Abs(af)
	if other := newFloat().Abs(bf); other.Cmp(largest) > 0 {
		largest = other
	}

	near := false
	for _, limit := range t.floats(af) {
		if diff.Cmp(limit) <= 0 {
			return true
		}
		// Rounding moves diff by at most 2^-62 of the larger number, and a
		// limit by less than 2^-60 of itself. Only inside that band can the
		// exact answer differ, and only there is it worth its price.
		edge := newFloat().Add(limit, newFloat().SetMantExp(limit, -60))
		edge.Add(edge, newFloat().SetMantExp(largest, -61))
		near = near || diff.Cmp(edge) <= 0
	}
	return near && t.exactly(a.decimal(), b.decimal())
}

// floats are the largest differences from the answer that each side allows.
func (t tolerance) floats(answer *big.Float) []*big.Float {
	var limits []*big.Float
	if t.abs != nil {
		limits = append(limits, t.abs.float)
	}
	if t.rel != nil {
		limit := newFloat().Mul(t.rel.float, answer)
		limits = append(limits, limit.Abs(limit))
	}
	return limits
}

func (t tolerance) exactly(a, b decimal) bool {
	x, y, exp, ok := align(a, b)
	if !ok {
		return false
	}
	diff := decimal{mant: new(big.Int).Sub(x, y), exp: exp}
	diff.mant.Abs(diff.mant)
	within := func(limit decimal) bool {
		x, y, _, ok := align(diff, limit)
		return ok && x.Cmp(y) <= 0
	}
	if t.abs != nil && within(t.abs.decimal) {
		return true
	}
	if t.rel == nil {
		return false
	}
	limit := decimal{mant: new(big.Int).Mul(t.rel.decimal.mant, a.mant), exp: t.rel.decimal.exp + a.exp}
	limit.mant.Abs(limit.mant)
	return within(limit)
}

// What doubles decide about: numbers of a size between the two, or so small
// that they are as good as zero beside every limit not below smallLimit.
const (
	tiny       = 1e-250
	huge       = 1e250
	smallLimit = 1e-240
)

// maxDoubleBytes is as long as a number may be for its double to be asked for.
const maxDoubleBytes = 1 << 10

// quickly decides in doubles when their rounding cannot change the decision;
// nearly every number of a real output ends here.
func (t tolerance) quickly(a, b number) (sure, ok bool) {
	x, okX := a.double()
	y, okY := b.double()
	if !okX || !okY {
		return false, false
	}
	diff := math.Abs(x - y)
	// Eight times what rounding can do, and what either may differ from zero.
	slack := 0x1p-50*max(math.Abs(x), math.Abs(y)) + 2*tiny
	sure = true
	for _, side := range []struct {
		b     *bound
		scale float64
	}{{t.abs, 1}, {t.rel, math.Abs(x)}} {
		if side.b == nil {
			continue
		}
		limit := side.b.double * side.scale
		if side.b.double < tiny || limit < smallLimit || limit > huge {
			sure = false // zero, or too near to the ends of the double's range
			continue
		}
		if diff+slack < limit*(1-0x1p-48) {
			return true, true
		}
		sure = sure && diff-slack > limit*(1+0x1p-48)
	}
	return sure, false
}

// double is n as a double: zero for all that is smaller than tiny, and not ok
// for what is larger than huge or too long.
func (n number) double() (f float64, ok bool) {
	if len(n.text) > maxDoubleBytes {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(n.text), 64)
	if size := math.Abs(f); size < tiny {
		f = 0
	}
	return f, err == nil && math.Abs(f) < huge
}
