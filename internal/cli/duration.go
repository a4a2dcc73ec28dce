package cli

import (
	"strings"
	"time"
)

// between says what is wrong with the duration that a flag was given.
func between(flag string, given, least, most time.Duration) error {
	if given >= least && given <= most {
		return nil
	}
	return usage("give a duration such as 90s, 45m or 2h", "%s must lie between %s and %s, and %s does not", flag, short(least), short(most), short(given))
}

// short is a duration without the parts that say nothing: 168h, not 168h0m0s.
func short(d time.Duration) string {
	text := d.String()
	for _, nothing := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, nothing) {
			text = text[:len(text)-2]
		}
	}
	return text
}

const year = 365 * 24 * time.Hour
