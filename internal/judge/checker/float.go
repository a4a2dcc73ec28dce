package checker

import (
	"math/big"
	"sync"
)

const (
	// mantissaBits is the precision of the second opinion beside exact
	// decimals: that of the x87 long double, with a wider exponent.
	mantissaBits = 64
	// wideBits is that of the way there, so that the rounding of a power of
	// ten and of a quotient does not show.
	wideBits = 4 * mantissaBits
	// wideDigits is how many significant digits are more than wideBits hold.
	wideDigits = 100
)

func newFloat() *big.Float { return new(big.Float).SetPrec(mantissaBits) }

// float is n rounded to mantissaBits. It takes time for the digits that are
// written, and next to none for the exponent: big.Float's own parser raises
// five to it, which takes 20 µs for a token of nine bytes.
func (n number) float() *big.Float {
	mant, exp := n.significant()
	if len(mant) == 0 {
		return newFloat()
	}
	i, _ := new(big.Int).SetString(string(mant), 10)
	f := new(big.Float).SetPrec(wideBits).SetInt(i)
	switch {
	case exp > 0:
		f.Mul(f, powerOfTen(exp))
	case exp < 0:
		f.Quo(f, powerOfTen(-exp))
	}
	if n.text[0] == '-' {
		f.Neg(f)
	}
	return f.SetPrec(mantissaBits)
}

// significant is the size of n as mant × 10^exp, without leading zeros and
// without what is beyond wideDigits.
func (n number) significant() (mant []byte, exp int) {
	mant = make([]byte, 0, min(len(n.text), wideDigits))
	exp = n.exponent
	point := false
digits:
	for _, c := range n.text {
		switch {
		case c == 'e' || c == 'E':
			break digits
		case c == '.':
			point = true
			continue
		case c < '0' || c > '9': // the sign
			continue
		case c == '0' && len(mant) == 0:
		case len(mant) < wideDigits:
			mant = append(mant, c)
		default:
			exp++
		}
		if point {
			exp--
		}
	}
	return mant, exp
}

// tens are 10^(2^i), up to what a number's exponent and its digits make.
var tens = sync.OnceValue(func() (list [21]*big.Float) {
	list[0] = new(big.Float).SetPrec(wideBits + 32).SetInt64(10)
	for i := range list[1:] {
		list[i+1] = new(big.Float).SetPrec(wideBits+32).Mul(list[i], list[i])
	}
	return list
})

// powerOfTen is 10^exp for an exp of at least 0: exact as long as it has room,
// and then within far less than the last of wideBits.
func powerOfTen(exp int) *big.Float {
	power := new(big.Float).SetPrec(wideBits + 32).SetInt64(1)
	for i, ten := range tens() {
		if exp>>i&1 == 1 {
			power.Mul(power, ten)
		}
	}
	return power
}
