package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// cell is one text of a table with its colour.
type cell struct {
	text  string
	color color
}

// column is one column of a table of Ts.
type column[T any] struct {
	name  string
	right bool // numbers
	wide  bool // shown with -o wide only
	flex  int  // may be cut down to so many columns when the terminal is narrow; 0: never
	cell  func(T) cell
}

func text(s string) cell           { return cell{text: s} }
func number(n int64) cell          { return cell{text: strconv.FormatInt(n, 10)} }
func shade(s string, c color) cell { return cell{text: s, color: c} }

// printItems writes items in the form that -o names. whole is the document for
// json; id names an item for -o id.
func printItems[T any](a *App, items []T, whole any, id func(T) string, cols []column[T]) error {
	w := bufio.NewWriter(a.Out)
	switch a.Output {
	case "json":
		return a.json(whole, "  ")
	case "jsonl":
		for _, it := range items {
			if err := a.json(it, ""); err != nil {
				return err
			}
		}
		return nil
	case "id":
		for _, it := range items {
			fmt.Fprintln(w, clean(id(it)))
		}
	default:
		if len(items) == 0 {
			fmt.Fprintln(w, "none")
			break
		}
		table(w, a, items, cols)
	}
	return w.Flush()
}

// machine says whether the output is for programs.
func (a *App) machine() bool { return a.Output != "table" && a.Output != "wide" }

func (a *App) json(v any, indent string) error {
	enc := json.NewEncoder(a.Out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	return enc.Encode(v)
}

func table[T any](w *bufio.Writer, a *App, items []T, all []column[T]) {
	var cols []column[T]
	for _, c := range all {
		if !c.wide || a.Output == "wide" {
			cols = append(cols, c)
		}
	}
	rows := make([][]cell, len(items))
	widths := make([]int, len(cols))
	for i, c := range cols {
		widths[i] = columns(c.name)
	}
	for r, it := range items {
		rows[r] = make([]cell, len(cols))
		for i, c := range cols {
			ce := c.cell(it)
			ce.text = clean(ce.text)
			rows[r][i] = ce
			widths[i] = max(widths[i], columns(ce.text))
		}
	}
	shrink(widths, cols, a.limit())
	head := make([]cell, len(cols))
	for i, c := range cols {
		head[i] = shade(c.name, dim)
	}
	for _, row := range append([][]cell{head}, rows...) {
		var line strings.Builder
		for i, ce := range row {
			t := cut(ce.text, widths[i])
			pad := strings.Repeat(" ", widths[i]-columns(t))
			painted := a.style.paint(t, ce.color, a.style.out)
			if i > 0 {
				line.WriteString("  ")
			}
			if cols[i].right {
				line.WriteString(pad + painted)
			} else {
				line.WriteString(painted + pad)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// pageLimit is the flag of commands that list what may be long.
type pageLimit struct {
	Limit int `short:"n" default:"20" help:"At most so many; 0 for all."`
}

// pages asks for page after page until there are as many as were asked for. more
// is the cursor of what was left, which a note tells of.
func pages[T any](app *App, p pageLimit, fetch func(cursor string, limit int) (page []T, next string, err error)) (all []T, more string, err error) {
	const most = 200 // what the API gives at once
	if p.Limit < 0 {
		return nil, "", usage("0 means all", "--limit must not be negative")
	}
	all = []T{}
	for {
		limit := most
		if p.Limit > 0 {
			limit = min(most, p.Limit-len(all))
		}
		page, next, err := fetch(more, limit)
		if err != nil {
			return nil, "", err
		}
		all, more = append(all, page...), next
		if more == "" || p.Limit > 0 && len(all) >= p.Limit {
			break
		}
	}
	if more != "" && app.Output != "json" {
		app.note("there are more; -n 0 lists all")
	}
	return all, more, nil
}

// limit is the width to fit into; 0 is no limit, as into a pipe.
func (a *App) limit() int {
	if a.Output == "wide" {
		return 0
	}
	if n, err := strconv.Atoi(a.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	return a.Columns
}

// shrink takes columns off the flexible cells, the widest first.
func shrink[T any](widths []int, cols []column[T], limit int) {
	total := 2 * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for limit > 0 && total > limit {
		widest := -1
		for i, c := range cols {
			if c.flex > 0 && widths[i] > c.flex && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
		total--
	}
}
