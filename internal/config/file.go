package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// entry is what the file says about one key.
type entry struct {
	text   string
	list   []string
	origin string // file and line
}

// maxFileBytes bounds a file of settings: anything longer is another file.
const maxFileBytes = 1 << 20

// readUpTo reads a file of at most so many bytes. It may be a pipe: secrets
// come out of other programs.
func readUpTo(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s holds more than %d bytes", name, most)
	}
	return text, err
}

// read reads the file strictly.
func (s Set) read(src Sources) (map[string]entry, error) {
	if src.File == "" {
		return nil, nil
	}
	text, err := readUpTo(src.File, maxFileBytes)
	if errors.Is(err, fs.ErrNotExist) && !src.Must {
		return nil, nil
	}
	if err != nil {
		return nil, &Error{Message: fmt.Sprintf("the settings cannot be read: %v", err), Hint: "give a readable file with --config"}
	}
	return s.parse(src.File, text)
}

func (s Set) parse(name string, text []byte) (map[string]entry, error) {
	bad := func(line int, hint, format string, args ...any) error {
		return &Error{Message: fmt.Sprintf("%s:%d: ", name, line) + fmt.Sprintf(format, args...), Hint: hint}
	}
	f, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, &Error{Message: name + ": " + yaml.FormatError(err, false, true), Hint: s.Page + " shows what it looks like"}
	}
	lines := strings.Split(string(text), "\n")
	quoted := func(line int) string { return strings.TrimSpace(lines[min(max(line, 1), len(lines))-1]) }
	out := map[string]entry{}
	for i, doc := range f.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.NullType || doc.Body.Type() == ast.CommentType {
			continue
		}
		mapping, ok := doc.Body.(*ast.MappingNode)
		if line := doc.Body.GetToken().Position.Line; !ok || i > 0 {
			return nil, bad(line, s.Page+" lists the keys", "%q is not a list of KEY: VALUE", quoted(line))
		}
		for _, pair := range mapping.Values {
			key := pair.Key.GetToken()
			line := key.Position.Line
			setting, known := s.forKey(key.Value)
			if !known {
				return nil, bad(line, s.Page+" lists the keys", "there is no setting %q, in %q; was %s meant?", key.Value, quoted(line), nearest(key.Value, s.keys()))
			}
			e := entry{origin: fmt.Sprintf("%s:%d: %s", name, line, key.Value)}
			switch v := pair.Value.(type) {
			case *ast.SequenceNode:
				if setting.Kind != List {
					return nil, bad(line, "give one value", "%q is a list, and %s is none", quoted(line), key.Value)
				}
				for _, item := range v.Values {
					scalar, ok := item.(ast.ScalarNode)
					if !ok {
						return nil, bad(line, "give a list of texts", "%q holds more than texts", quoted(line))
					}
					e.list = append(e.list, fmt.Sprint(scalar.GetValue()))
				}
			case *ast.NullNode:
				continue // as if it were not there
			case ast.ScalarNode:
				if setting.Kind == List {
					return nil, bad(line, "give a list: ["+v.GetToken().Value+"]", "%q is no list, and %s is one", quoted(line), key.Value)
				}
				e.text = scalarText(v)
			default:
				return nil, bad(line, s.Page+" shows what it looks like", "%q is neither a value nor a list", quoted(line))
			}
			if _, twice := out[key.Value]; twice {
				return nil, bad(line, "remove one", "%s is there twice, in %q", key.Value, quoted(line))
			}
			out[key.Value] = e
		}
	}
	return out, nil
}

// scalarText is a scalar as it is written: a number keeps its form.
func scalarText(n ast.ScalarNode) string {
	if text, ok := n.GetValue().(string); ok {
		return text
	}
	return n.GetToken().Value
}

func (s Set) forKey(key string) (Setting, bool) {
	for _, setting := range s.Settings {
		if setting.Key == key {
			return setting, true
		}
		if setting.Secret && setting.Key+"_file" == key {
			return Setting{Key: key, Kind: Text}, true
		}
	}
	return Setting{}, false
}

func (s Set) keys() (keys []string) {
	for _, setting := range s.Settings {
		keys = append(keys, setting.Key)
	}
	slices.Sort(keys)
	return keys
}

// Schema describes the file for editors, as JSON Schema.
func (s Set) Schema() map[string]any {
	properties := map[string]any{}
	for _, setting := range s.Settings {
		p := map[string]any{"description": setting.Says}
		switch setting.Kind {
		case Number:
			p["type"] = "integer"
			p["minimum"] = setting.Min
			if setting.Max > 0 {
				p["maximum"] = setting.Max
			}
		case Switch:
			p["type"] = "boolean"
		case List:
			p["type"], p["items"] = "array", map[string]any{"type": "string"}
		case Size:
			p["type"], p["pattern"] = []string{"string", "integer"}, `^[0-9]+ *(KiB|MiB|GiB|TiB)?$`
		case Text, Duration:
			p["type"] = "string"
		}
		if setting.Choices != nil {
			p["enum"] = setting.Choices
		}
		if setting.Default != "" {
			p["default"] = setting.Default
		}
		properties[setting.Key] = p
		if setting.Secret {
			properties[setting.Key+"_file"] = map[string]any{"type": "string", "description": "a file that holds " + setting.Key}
		}
	}
	return map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": false, "properties": properties,
	}
}
