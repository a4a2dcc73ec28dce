package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// check refuses a value that is not of its kind.
func (v *Value) check() error {
	if v.Text == "" || v.Kind == List {
		return nil
	}
	var err error
	hint, what := "", ""
	switch v.Kind {
	case Size:
		what, hint = "a size", "give a number of bytes, or one with KiB, MiB, GiB or TiB"
		err = v.bounded(parseSize(v.Text))
	case Duration:
		what, hint = "a duration", "give a duration such as 30s or 5m"
		d, parseErr := time.ParseDuration(v.Text)
		err = v.bounded(int64(d), parseErr)
	case Number:
		what, hint = "a number that can be", fmt.Sprintf("give a whole number from %d on", v.Min)
		if v.Max > 0 {
			hint = fmt.Sprintf("give a whole number from %d to %d", v.Min, v.Max)
		}
		err = v.bounded(strconv.ParseInt(v.Text, 10, 64))
	case Switch:
		what, hint = "a yes or no", "give true or false"
		_, err = strconv.ParseBool(v.Text)
	case Text:
		if v.Choices != nil && !slices.Contains(v.Choices, v.Text) {
			what, hint, err = "one of the choices", "choose among "+strings.Join(v.Choices, ", "), errOutside
		}
	case List:
	}
	if err != nil {
		return &Error{Message: fmt.Sprintf("%s is not %s", v.Origin, what), Hint: hint}
	}
	return nil
}

var errOutside = errors.New("outside of what it can be")

func (v *Value) bounded(n int64, err error) error {
	if err == nil && (n < v.Min || v.Max > 0 && n > v.Max) {
		return errOutside
	}
	return err
}

func parseSize(s string) (int64, error) {
	shift := 0
	for i, unit := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if n, ok := strings.CutSuffix(s, unit); ok {
			s, shift = strings.TrimSpace(n), 10*(i+1)
			break
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > 1<<62>>shift {
		return 0, errors.New("not a size")
	}
	return n << shift, nil
}

// get panics on a key that the set does not have: a programmer's mistake that
// every start meets.
func (v *Values) get(key string) Value {
	i := slices.IndexFunc(v.all, func(v Value) bool { return v.Key == key })
	if i < 0 {
		panic("config: no setting " + key)
	}
	return v.all[i]
}

// Given reports whether a value came from anywhere but its default.
func (v *Values) Given(key string) bool { return v.get(key).Origin != "default" }

// Text is a setting's text; empty when there is none.
func (v *Values) Text(key string) string { return v.get(key).Text }

// List is a setting's texts.
func (v *Values) List(key string) []string { return v.get(key).List }

// Number is a number; 0 when there is none.
func (v *Values) Number(key string) int64 {
	n, _ := strconv.ParseInt(v.get(key).Text, 10, 64) // checked, or empty
	return n
}

// Size is a number of bytes; 0 when there is none.
func (v *Values) Size(key string) int64 {
	n, _ := parseSize(v.get(key).Text) // as above
	return n
}

// Duration is a duration; 0 when there is none.
func (v *Values) Duration(key string) time.Duration {
	d, _ := time.ParseDuration(v.get(key).Text) // as above
	return d
}

// Switch is a yes or no.
func (v *Values) Switch(key string) bool {
	on, _ := strconv.ParseBool(v.get(key).Text) // as above
	return on
}
