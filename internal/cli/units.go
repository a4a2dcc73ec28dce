package cli

import (
	"fmt"
	"strings"
	"time"
)

// ms writes microseconds as whole milliseconds, rounded up so that a run that
// took time never shows 0 by rounding, and 1,000,400 µs over a limit of
// 1,000 ms does not look like the limit.
func ms(us int64) string { return fmt.Sprint((us + 999) / 1000) }

// mib writes bytes as MiB.
func mib(bytes int64) string { return fmt.Sprintf("%.1f", float64(bytes)/(1<<20)) }

// size writes a size as people say it.
func size(bytes int64) string {
	switch {
	case bytes < 1<<10:
		return fmt.Sprintf("%d B", bytes)
	case bytes < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(bytes)/(1<<10))
	case bytes < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}

// took writes a duration with as much precision as a person wants: a number
// and a unit, or two from a minute on.
func took(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		s := int(d.Round(time.Second).Seconds())
		return fmt.Sprintf("%d min %d s", s/60, s%60)
	}
	m := int(d.Round(time.Minute).Minutes())
	return fmt.Sprintf("%d h %d min", m/60, m%60)
}

// instant writes a time in UTC: a column of them must sort by eye.
func instant(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// digest shortens sha256:… to what tells packages apart.
func digest(d string) string {
	hex := strings.TrimPrefix(d, "sha256:")
	return hex[:min(12, len(hex))]
}
