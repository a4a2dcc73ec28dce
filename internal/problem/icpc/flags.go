package icpc

import (
	"fmt"
	"strings"

	"github.com/gavel-oj/gavel/internal/problem"
)

// ParseFlags reads the arguments of the format's default output validator.
// Arguments that it does not know are errors: to leave out a tolerance would
// change verdicts. In strict mode so is a flag given twice, of which the older
// formats use the last.
func ParseFlags(args []string, strict bool) (problem.TokenOptions, error) {
	var o problem.TokenOptions
	seen := map[string]bool{}
	mark := func(names ...string) error {
		for _, n := range names {
			if seen[n] && strict {
				return fmt.Errorf("%s is given twice", n)
			}
			seen[n] = true
		}
		return nil
	}
	for i := 0; i < len(args); i++ {
		var err error
		switch name := args[i]; name {
		case "case_sensitive":
			o.CaseSensitive, err = true, mark(name)
		case "space_change_sensitive":
			o.SpaceChangeSensitive, err = true, mark(name)
		case "float_relative_tolerance", "float_absolute_tolerance", "float_tolerance":
			if i++; i == len(args) {
				return o, fmt.Errorf("%s needs a number after it", name)
			}
			if err := checkTolerance(name, args[i]); err != nil {
				return o, err
			}
			if name != "float_absolute_tolerance" {
				o.FloatRelative, err = args[i], mark("float_relative_tolerance")
			}
			if name != "float_relative_tolerance" && err == nil {
				o.FloatAbsolute, err = args[i], mark("float_absolute_tolerance")
			}
		default:
			return o, fmt.Errorf("the default validator has no flag %q (it has case_sensitive, space_change_sensitive, float_tolerance, float_relative_tolerance, float_absolute_tolerance)", cut(name))
		}
		if err != nil {
			return o, err
		}
	}
	return o, nil
}

func checkTolerance(name, s string) error {
	r, ok := parseDecimal(s)
	switch {
	case !ok:
		return fmt.Errorf("%s needs a decimal number such as 1e-6, not %q", name, cut(s))
	case r.Sign() < 0 || strings.HasPrefix(s, "-"):
		return fmt.Errorf("%s must not be negative: %s", name, s)
	}
	return nil
}
