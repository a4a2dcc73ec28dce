package checker

import "math/bits"

// maxSmall bounds what is computed with in place of big numbers; the difference
// of two such numbers still fits into 64 bits.
const maxSmall = 1 << 62

// small is mant × 10^exp, with |mant| below maxSmall and no trailing zeros.
type small struct {
	mant int64
	exp  int
}

// small is n exactly; ok is false when it takes more than 18 digits.
func (n number) small() (s small, ok bool) {
	s.exp = n.exponent
	digits, zeros, point := 0, 0, false
	for _, c := range n.text {
		switch {
		case c == 'e' || c == 'E':
			return s.finish(n, zeros), true
		case c == '.':
			point = true
			continue
		case c < '0' || c > '9': // the sign
			continue
		}
		if point {
			s.exp--
		}
		if c == '0' {
			zeros++
			continue
		}
		if s.mant == 0 {
			zeros = 0
		}
		if digits += zeros + 1; digits > 18 {
			return small{}, false
		}
		for ; zeros > 0; zeros-- {
			s.mant *= 10
		}
		s.mant = s.mant*10 + int64(c-'0')
	}
	return s.finish(n, zeros), true
}

func (s small) finish(n number, zeros int) small {
	if n.text[0] == '-' {
		s.mant = -s.mant
	}
	return small{mant: s.mant, exp: s.exp + zeros}
}

// alignSmall brings a and b to one exponent; ok is false when they do not fit.
func alignSmall(a, b small) (x, y int64, exp int, ok bool) {
	switch {
	case a.mant == 0:
		return 0, b.mant, b.exp, true
	case b.mant == 0:
		return a.mant, 0, a.exp, true
	case a.exp < b.exp:
		y, x, exp, ok = alignSmall(b, a)
		return x, y, exp, ok
	}
	for shift := a.exp - b.exp; shift > 0; shift-- {
		if a.mant >= maxSmall/10 || a.mant <= -maxSmall/10 {
			return 0, 0, 0, false
		}
		a.mant *= 10
	}
	return a.mant, b.mant, b.exp, true
}

// within reports whether s, of at least 0, is at most limit; false also when
// that does not fit.
func (s small) within(limit small) bool {
	x, y, _, ok := alignSmall(s, limit)
	return ok && x <= y
}

// exactlySmall reports whether a and b are short enough for 64 bits and b is
// close enough to a, as exactly would say.
func (t tolerance) exactlySmall(a, b number) bool {
	want, okA := a.small()
	got, okB := b.small()
	if !okA || !okB {
		return false
	}
	x, y, exp, ok := alignSmall(want, got)
	if !ok {
		return false
	}
	diff := small{mant: max(x-y, y-x), exp: exp}
	if diff.mant == 0 || t.abs != nil && diff.within(t.abs.small) {
		return true
	}
	if t.rel == nil {
		return false
	}
	high, low := bits.Mul64(uint64(t.rel.small.mant), uint64(max(want.mant, -want.mant)))
	return high == 0 && low < maxSmall && diff.within(small{mant: int64(low), exp: t.rel.small.exp + want.exp})
}
