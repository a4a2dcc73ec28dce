package whatif

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gavel-oj/gavel/internal/dispatch"
)

// Waits are percentiles of the waiting times of a group of jobs.
type Waits struct {
	Group string
	Jobs  int
	Never int // not judged within the run
	P50   time.Duration
	P95   time.Duration
	P99   time.Duration
	Max   time.Duration
}

// MarshalJSON gives null for a percentile that is never reached: a number would
// be averaged and drawn.
func (w Waits) MarshalJSON() ([]byte, error) {
	known := func(d time.Duration) *time.Duration {
		if d == math.MaxInt64 {
			return nil
		}
		return &d
	}
	return json.Marshal(struct {
		Group string         `json:"group"`
		Jobs  int            `json:"jobs"`
		Never int            `json:"never"`
		P50   *time.Duration `json:"p50_ns"`
		P95   *time.Duration `json:"p95_ns"`
		P99   *time.Duration `json:"p99_ns"`
		Max   *time.Duration `json:"max_ns"`
	}{w.Group, w.Jobs, w.Never, known(w.P50), known(w.P95), known(w.P99), known(w.Max)})
}

// Report is how one policy did.
type Report struct {
	Policy string  `json:"policy"`
	Groups []Waits `json:"groups"`
}

// Summarize groups the outcomes: all, by lane, by the pool that judged, and by
// user: the median user and the one with the most jobs.
func Summarize(policyName string, out []Outcome) Report {
	groups := map[string][]*Outcome{}
	users := map[string][]*Outcome{}
	for i := range out {
		o := &out[i]
		groups["lane "+o.Job.Lane.String()] = append(groups["lane "+o.Job.Lane.String()], o)
		if o.Worker != nil {
			groups["pool "+o.Worker.Pool] = append(groups["pool "+o.Worker.Pool], o)
		}
		if o.Job.User != "" && o.Job.Lane != dispatch.Run {
			users[o.Job.User] = append(users[o.Job.User], o)
		}
	}
	r := Report{Policy: policyName}
	names := make([]string, 0, len(groups))
	for name := range groups {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		r.Groups = append(r.Groups, waits(name, groups[name]))
	}
	var each []Waits
	for name, list := range users {
		each = append(each, waits("user "+name, list))
	}
	if len(each) > 0 {
		slices.SortFunc(each, func(x, y Waits) int { return cmp.Or(cmp.Compare(y.Jobs, x.Jobs), cmp.Compare(x.Group, y.Group)) })
		busiest := each[0]
		slices.SortFunc(each, func(x, y Waits) int { return cmp.Or(cmp.Compare(x.P95, y.P95), cmp.Compare(x.Group, y.Group)) })
		median := each[len(each)/2]
		median.Group = "median user"
		busiest.Group = "busiest user"
		r.Groups = append(r.Groups, median, busiest)
	}
	return r
}

// Group is one of the report's groups.
func (r *Report) Group(name string) (Waits, bool) {
	i := slices.IndexFunc(r.Groups, func(w Waits) bool { return w.Group == name })
	if i < 0 {
		return Waits{}, false
	}
	return r.Groups[i], true
}

func waits(name string, list []*Outcome) Waits {
	w := Waits{Group: name, Jobs: len(list)}
	var times []time.Duration
	for _, o := range list {
		if o.Done == 0 {
			w.Never++
			times = append(times, math.MaxInt64)
			continue
		}
		times = append(times, o.Wait())
	}
	slices.Sort(times)
	at := func(q float64) time.Duration {
		return times[min(len(times)-1, int(math.Ceil(q*float64(len(times))))-1)]
	}
	w.P50, w.P95, w.P99, w.Max = at(0.5), at(0.95), at(0.99), times[len(times)-1]
	return w
}

// WriteTable prints reports side by side: a line for each group and policy.
func WriteTable(w io.Writer, reports []Report) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "GROUP\tPOLICY\tJOBS\tP50\tP95\tP99\tMAX\tNEVER")
	var names []string
	for i := range reports {
		for _, g := range reports[i].Groups {
			if !slices.Contains(names, g.Group) {
				names = append(names, g.Group)
			}
		}
	}
	for _, name := range names {
		for i := range reports {
			if g, ok := reports[i].Group(name); ok {
				fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%d\n", name, reports[i].Policy, g.Jobs, short(g.P50), short(g.P95), short(g.P99), short(g.Max), g.Never)
			}
		}
	}
	return t.Flush()
}

func short(d time.Duration) string {
	switch {
	case d == math.MaxInt64:
		return "never"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	default:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
}

// WriteSVG draws the share of jobs that waited no longer than a time, a line
// for each policy, over a logarithmic axis from 1 ms.
func WriteSVG(w io.Writer, title string, policies []string, outcomes [][]Outcome) error {
	const width, height, left, top = 720, 420, 60, 40
	colors := []string{"#1b6ac9", "#555555", "#c0392b", "#d68910", "#1e8449"}
	x := func(d time.Duration) float64 {
		ms := max(1, float64(d.Microseconds())/1000)
		return left + math.Log10(ms)/7*(width-left-20) // up to 10,000 s
	}
	y := func(share float64) float64 { return top + (1-share)*(height-top-50) }
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&s, `<title>%s</title><rect width="100%%" height="100%%" fill="white"/><text x="%d" y="20" font-size="15">%s</text>`+"\n", escape(title), left, escape(title))
	for i, label := range []string{"1 ms", "10 ms", "0.1 s", "1 s", "10 s", "100 s", "17 min", "2.8 h"} {
		at := x(time.Duration(math.Pow10(i)) * time.Millisecond)
		fmt.Fprintf(&s, `<line x1="%.0f" y1="%d" x2="%.0f" y2="%d" stroke="#dddddd"/><text x="%.0f" y="%d" text-anchor="middle">%s</text>`+"\n", at, top, at, height-50, at, height-32, label)
	}
	for _, share := range []float64{0, 0.5, 0.95, 1} {
		fmt.Fprintf(&s, `<line x1="%d" y1="%.0f" x2="%d" y2="%.0f" stroke="#dddddd"/><text x="%d" y="%.0f" text-anchor="end">%.0f %%</text>`+"\n", left, y(share), width-20, y(share), left-6, y(share)+4, share*100)
	}
	for i, list := range outcomes {
		var times []time.Duration
		for j := range list {
			if list[j].Done != 0 {
				times = append(times, list[j].Wait())
			}
		}
		slices.Sort(times)
		var points []string
		step := max(1, len(times)/400)
		for j := 0; j < len(times); j += step {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(times[j]), y(float64(j+1)/float64(len(list)))))
		}
		if n := len(times); n > 0 {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(times[n-1]), y(float64(n)/float64(len(list)))))
		}
		color := colors[i%len(colors)]
		fmt.Fprintf(&s, `<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>`+"\n", color, strings.Join(points, " "))
		fmt.Fprintf(&s, `<text x="%d" y="%d" fill="%s">%s</text>`+"\n", left+10+i*110, height-10, color, escape(policies[i]))
	}
	s.WriteString("</svg>\n")
	_, err := io.WriteString(w, s.String())
	return err
}

var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")

func escape(s string) string { return escaper.Replace(s) }
