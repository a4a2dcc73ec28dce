package judge

import "bytes"

// beginsWith reports whether the first thing that the preprocessor meets in a
// source is #include <header>. Only then is a header compiled ahead the same
// as the header itself: a pragma, a macro or another header before it may
// change what it means. (GCC checks much of that itself, but calls its checks
// no guarantee.) What this function does not understand, such as a spliced
// line, is a no. With quotes, #include "header" will do as well.
func beginsWith(source []byte, header string, quotes bool) bool {
	s := bytes.TrimPrefix(source, []byte("\xef\xbb\xbf"))
	for {
		s = bytes.TrimLeft(s, " \t\n")
		var cut bool
		switch {
		case bytes.HasPrefix(s, []byte("\r\n")):
			s = s[2:]
		case bytes.HasPrefix(s, []byte("//")):
			if s, cut = skipComment(s[2:], "\n"); !cut {
				return false
			}
		case bytes.HasPrefix(s, []byte("/*")):
			if s, cut = skipComment(s[2:], "*/"); !cut {
				return false
			}
		case bytes.HasPrefix(s, []byte("#")):
			return isInclude(s[1:], header, quotes)
		default:
			return false
		}
	}
}

// skipComment cuts a comment off. A backslash or a trigraph may splice lines,
// so that the comment ends elsewhere; a NUL byte is nobody's friend.
func skipComment(s []byte, end string) (rest []byte, ok bool) {
	comment, rest, ok := bytes.Cut(s, []byte(end))
	for _, odd := range []string{"\\\n", "\\\r", "\\ ", "\\\t", "\\\v", "\\\f", "??/", "\x00"} {
		if bytes.Contains(comment, []byte(odd)) {
			return nil, false
		}
	}
	// The text ends where end begins, so a backslash there is before a newline.
	return rest, ok && (end != "\n" || !bytes.HasSuffix(comment, []byte("\\")))
}

// isInclude reports whether what follows a # is an include of header and
// nothing else.
func isInclude(s []byte, header string, quotes bool) bool {
	line, _, _ := bytes.Cut(s, []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	line, ok := bytes.CutPrefix(bytes.TrimLeft(line, " \t"), []byte("include"))
	if !ok {
		return false
	}
	line = bytes.TrimLeft(line, " \t")
	rest, ok := bytes.CutPrefix(line, []byte("<"+header+">"))
	if !ok && quotes {
		rest, ok = bytes.CutPrefix(line, []byte("\""+header+"\""))
	}
	rest = bytes.TrimLeft(rest, " \t")
	return ok && (len(rest) == 0 || bytes.HasPrefix(rest, []byte("//")) || bytes.HasPrefix(rest, []byte("/*")))
}
