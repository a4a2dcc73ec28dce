package checker

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// excerptBytes bounds what a message shows of a token.
const excerptBytes = 100

// excerpt quotes the beginning of b in printable ASCII, at most excerptBytes
// bytes in all.
func excerpt(b []byte) string {
	const closing = `"...`
	var out strings.Builder
	out.WriteByte('"')
	for _, c := range b {
		piece := escape(c)
		if out.Len()+len(piece)+len(closing) > excerptBytes {
			out.WriteString(closing)
			return out.String()
		}
		out.WriteString(piece)
	}
	out.WriteByte('"')
	return out.String()
}

func escape(c byte) string {
	switch {
	case c == '"' || c == '\\':
		return `\` + string(rune(c))
	case c == '\n':
		return `\n`
	case c == '\r':
		return `\r`
	case c == '\t':
		return `\t`
	case c >= ' ' && c < 0x7f:
		return string(rune(c))
	}
	return fmt.Sprintf(`\x%02x`, c)
}

// Clean makes text of unknown origin fit to show: valid UTF-8, no control or
// formatting characters but tab and line feed, trimmed, at most maxBytes long.
// cut says that the limit took something away.
func Clean(text []byte, maxBytes int) (clean string, cut bool) {
	var out strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		text = text[size:]
		switch {
		case r == '\r':
			continue
		case r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)):
			r = utf8.RuneError
		}
		if out.Len()+utf8.RuneLen(r) > maxBytes {
			cut = true
			break
		}
		out.WriteRune(r)
	}
	return strings.TrimRight(out.String(), " \t\n"), cut
}
