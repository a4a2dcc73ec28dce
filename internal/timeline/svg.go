package timeline

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

// Sizes of the drawing, in its own units.
const (
	svgWidth  = 960
	svgLeft   = 96 // of the names of lanes
	svgRight  = 24
	svgTop    = 64
	laneStep  = 22
	rowStep   = 7
	blockRest = 100 // of a block beside its rows: head, three lanes, gap
)

// colors of the drawing; it has a background of its own, so that it can be read
// on any page.
const (
	inkColor     = "#22272e"
	mutedColor   = "#6b7280"
	gridColor    = "#e3e6ea"
	asleepColor  = "#5f6b7a"
	failingColor = "#a85d00"
	heldColor    = "#c0392b"
	homeColor    = "#1e8449"
	serverColor  = "#1b6ac9"
)

// drawing is an SVG being written.
type drawing struct {
	strings.Builder

	r        *Replay
	from, to Offset // of the axis
}

// WriteSVG draws a block for each way over one axis of time: what home and the
// server went through, a line for the wait of each submission with a dot where
// it was claimed, and the alarms.
func (r *Replay) WriteSVG(w io.Writer) error {
	d := &drawing{r: r, from: Offset(-30 * time.Second)}
	height := svgTop + 56
	for i := range r.Ways {
		d.to = max(d.to, r.Ways[i].Ended)
		height += blockHeight(&r.Ways[i])
	}
	d.to += d.to / 50
	d.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`, svgWidth, height)
	title := r.Story + ": " + r.Title
	d.printf(`<title>%s</title>`, escape(title))
	d.printf(`<rect width="%d" height="%d" fill="#ffffff"/>`, svgWidth, height)
	d.text(svgLeft, 24, inkColor, `font-size="15" font-weight="bold"`, title)
	d.text(svgLeft, 42, mutedColor, "", fmt.Sprintf("%g times as fast; all times are those of the incident", r.Factor))
	y := svgTop
	d.axis(y, height-56)
	for i := range r.Ways {
		d.block(y, &r.Ways[i])
		y += blockHeight(&r.Ways[i])
	}
	d.legend(height - 16)
	d.printf("</svg>")
	_, err := io.WriteString(w, d.String())
	return err
}

func blockHeight(w *Way) int { return blockRest + rowStep*len(w.Submissions) }

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(d, format+"\n", args...) }

func (d *drawing) text(x float64, y int, color, more, text string) {
	if more != "" {
		more = " " + more
	}
	d.printf(`<text x="%.0f" y="%d" fill="%s"%s>%s</text>`, x, y, color, more, escape(text))
}

// x is where a time lies; times before the axis lie on its edge.
func (d *drawing) x(o Offset) float64 {
	share := float64(max(o, d.from)-d.from) / float64(d.to-d.from)
	return svgLeft + min(share, 1)*(svgWidth-svgLeft-svgRight)
}

// axis draws lines at round times, their labels below.
func (d *drawing) axis(top, bottom int) {
	step := Offset(time.Minute)
	for _, s := range []time.Duration{time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, time.Hour} {
		if step = Offset(s); (d.to-d.from)/step <= 16 {
			break
		}
	}
	for at := Offset(0); at <= d.to; at += step {
		x := d.x(at)
		d.printf(`<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="%s"/>`, x, top, x, bottom, gridColor)
		d.text(x, bottom+14, mutedColor, `text-anchor="middle" font-size="11"`, d.r.label(at))
	}
}

// label is a round time without its seconds: of the day, or since the beginning.
func (r *Replay) label(at Offset) string {
	if r.Clock == 0 {
		return fmt.Sprintf("+%.0f min", time.Duration(at).Minutes())
	}
	return strings.TrimSuffix(r.clock(at), ":00")
}

// block draws one way.
func (d *drawing) block(y int, w *Way) {
	d.text(svgLeft, y+14, inkColor, `font-weight="bold"`, w.Name)
	d.text(svgWidth-svgRight, y+14, inkColor, `text-anchor="end"`,
		fmt.Sprintf("a claim was held up for %s, a submission waited for %s", Short(time.Duration(w.ClaimHeldUp)), Short(time.Duration(w.Waited()))))
	lanes := y + 22
	rows := lanes + 3*laneStep + 6
	for i, name := range []string{"home", "server", "alarm"} {
		d.text(svgLeft-10, lanes+i*laneStep+13, mutedColor, `text-anchor="end"`, name)
	}
	if len(w.Alarms) == 0 {
		d.text(d.x(0)+6, lanes+2*laneStep+13, mutedColor, `font-size="11"`, "none")
	}
	for _, a := range w.Alarms {
		d.alarm(lanes+2*laneStep+2, rows+rowStep*len(w.Submissions)-4, w, a)
	}
	for _, s := range w.Spans {
		lane := lanes
		if s.Who == "server" {
			lane += laneStep
		}
		d.span(lane+2, s)
	}
	d.text(svgLeft-10, rows+4, mutedColor, `text-anchor="end"`, "submissions")
	for i := range w.Submissions {
		d.submission(rows+i*rowStep, &w.Submissions[i], w.Ended)
	}
}

func (d *drawing) span(y int, s Span) {
	from, to := d.x(s.From), d.x(s.To)
	color, label := asleepColor, "asleep"
	switch s.Kind {
	case Failing:
		color, label = failingColor, s.What
	case HeldUp:
		color, label = heldColor, "held up for "+Short(time.Duration(s.To-s.From))
	}
	d.printf(`<rect x="%.1f" y="%d" width="%.1f" height="14" rx="2" fill="%s"><title>%s</title></rect>`,
		from, y, max(2, to-from), color, escape(s.Who+": "+s.What+", "+Short(time.Duration(s.To-s.From))))
	at, ink := from+6, "#ffffff"
	if float64(len(label))*6.2 > to-from-8 { // it does not fit in
		at, ink = max(to, from+2)+6, color
		if s.Kind != HeldUp {
			ink = mutedColor
		}
	}
	d.text(at, y+11, ink, `font-size="11"`, label)
}

func (d *drawing) submission(y int, s *Submission, end Offset) {
	claimed := s.At + s.waited(end)
	from, to := d.x(s.At), d.x(claimed)
	d.printf(`<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="%s" stroke-width="2"><title>%s</title></line>`, from, y, max(to, from+1), y, mutedColor, escape(tell(s, end)))
	for _, c := range s.Claims {
		color, fill := homeColor, homeColor
		if c.Worker == "server" {
			color, fill = serverColor, serverColor
		}
		if c.Outcome != "completed" {
			fill = "#ffffff"
		}
		d.printf(`<circle cx="%.1f" cy="%d" r="2.6" fill="%s" stroke="%s" stroke-width="1.4"/>`, d.x(c.At), y, fill, color)
	}
}

func (d *drawing) alarm(top, bottom int, w *Way, a Alarm) {
	until := a.Cleared
	if until == 0 {
		until = w.Ended
	}
	from, to := d.x(a.Rang), d.x(until)
	d.printf(`<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s" fill-opacity="0.08"><title>%s</title></rect>`, from, top, max(1, to-from), bottom-top, heldColor, escape(a.What))
	d.printf(`<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="%s" stroke-dasharray="3 2"/>`, from, top, from, bottom, heldColor)
	d.text(from+5, top+11, heldColor, `font-size="11"`, a.Name+" "+d.r.clock(a.Rang))
}

func (d *drawing) legend(y int) {
	x := float64(svgLeft)
	for _, e := range []struct{ fill, stroke, text string }{
		{homeColor, homeColor, "claimed by home"},
		{serverColor, serverColor, "claimed by server"},
		{"#ffffff", mutedColor, "claim that came to nothing"},
	} {
		d.printf(`<circle cx="%.0f" cy="%d" r="3" fill="%s" stroke="%s" stroke-width="1.4"/>`, x, y-4, e.fill, e.stroke)
		d.text(x+8, y, mutedColor, "", e.text)
		x += 30 + 6.6*float64(len(e.text))
	}
	d.printf(`<line x1="%.0f" y1="%d" x2="%.0f" y2="%d" stroke="%s" stroke-width="2"/>`, x, y-4, x+18, y-4, mutedColor)
	d.text(x+24, y, mutedColor, "", "a submission waits")
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a builder takes everything
	return b.String()
}
