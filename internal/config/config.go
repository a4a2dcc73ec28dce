package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Kind is what a setting's value looks like.
type Kind string

// The kinds.
const (
	Text     Kind = ""
	Size     Kind = "size"     // bytes, or with KiB, MiB, GiB, TiB
	Duration Kind = "duration" // 30s, 5m
	Number   Kind = "number"
	Switch   Kind = "switch" // true or false
	List     Kind = "list"   // of texts; in the file only
)

// Setting is one setting of a program.
type Setting struct {
	Key     string // in the file; the flag has dashes for its underscores
	Env     string // "" for none
	Default string // as somebody would write it
	Note    string // the default in words, where no value can say it
	Says    string // what it means, in one line
	Kind    Kind
	Min     int64 // of Size, Duration (ns) and Number
	Max     int64 // 0: none
	Choices []string
	NoFlag  bool
	// Secret is never shown. It may also be in a file, named by KEY_file, or be
	// the systemd credential of that name.
	Secret     bool
	Credential string
}

// Flag is the setting's flag.
func (s Setting) Flag() string { return "--" + strings.ReplaceAll(s.Key, "_", "-") }

// Set is the settings of a program.
type Set struct {
	Settings []Setting
	Page     string // where they are described
	// Prefix is what the program's variables begin with; those of Others, and
	// those that begin with one of Foreign, are not settings and no mistakes.
	Prefix  string
	Others  []string
	Foreign []string
}

// Sources are where values come from.
type Sources struct {
	Flags   map[string]string // by key; empty values count as not given
	Environ []string
	File    string // "" for none
	Must    bool   // the file has to exist
}

// Error is a mistake in the settings.
type Error struct{ Message, Hint string }

func (e *Error) Error() string { return e.Message }

// Value is one setting's value.
type Value struct {
	Setting

	Text   string
	List   []string
	Origin string // "default", or the flag, the variable, the file and line
}

// Shown is the value for people: secrets are masked.
func (v *Value) Shown() string {
	switch {
	case v.Secret && v.Text != "":
		return "(secret)"
	case v.Kind == List:
		return "[" + strings.Join(v.List, ", ") + "]"
	case v.Text == "" && v.Note != "":
		return "(" + v.Note + ")"
	}
	return v.Text
}

// Values are all settings of a program.
type Values struct {
	Warnings []string
	all      []Value
}

// All returns them in the set's order.
func (v *Values) All() []Value { return slices.Clone(v.all) }

// Env returns the variables of an environment that are not empty.
func Env(environ []string) map[string]string {
	env := map[string]string{}
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok && value != "" {
			env[name] = value
		}
	}
	return env
}

// Resolve finds and checks every value.
func (s Set) Resolve(src Sources) (*Values, error) {
	env := Env(src.Environ)
	file, err := s.read(src)
	if err != nil {
		return nil, err
	}
	out := &Values{Warnings: s.unknownVariables(env)}
	for _, setting := range s.Settings {
		v := Value{Setting: setting, Text: setting.Default, Origin: "default"}
		f, inFile := file[setting.Key]
		switch {
		case src.Flags[setting.Key] != "":
			v.Text, v.Origin = src.Flags[setting.Key], setting.Flag()
		case setting.Env != "" && env[setting.Env] != "":
			v.Text, v.Origin = env[setting.Env], setting.Env
		case inFile:
			v.Text, v.List, v.Origin = f.text, f.list, f.origin
		}
		if setting.Secret && (v.Origin == "default" || inFile && v.Origin == f.origin) {
			if err := v.fromFile(src, env, file); err != nil {
				return nil, err
			}
		}
		if err := v.check(); err != nil {
			return nil, err
		}
		out.all = append(out.all, v)
	}
	return out, nil
}

// fromFile takes a secret from the file that another setting names.
func (v *Value) fromFile(src Sources, env map[string]string, file map[string]entry) error {
	key := v.Key + "_file"
	var name, origin string
	f, inFile := file[key]
	credential := filepath.Join(env["CREDENTIALS_DIRECTORY"], v.Credential)
	switch {
	case src.Flags[key] != "":
		name, origin = src.Flags[key], v.Flag()+"-file"
	case env[v.Env+"_FILE"] != "":
		name, origin = env[v.Env+"_FILE"], v.Env+"_FILE"
	case v.Origin != "default":
		return nil // it is in the settings file itself
	case inFile:
		name, origin = f.text, f.origin
	case env["CREDENTIALS_DIRECTORY"] != "" && v.Credential != "" && exists(credential):
		name, origin = credential, "credential "+v.Credential
	default:
		return nil
	}
	text, err := readUpTo(name, maxSecretBytes)
	if err != nil || strings.TrimSpace(string(text)) == "" {
		return &Error{
			Message: fmt.Sprintf("%s: the file %s cannot be read, or holds no value", origin, name),
			Hint:    "name a readable file that holds nothing but the value",
		}
	}
	v.Text, v.Origin = strings.TrimSpace(string(text)), origin
	return nil
}

// maxSecretBytes bounds the file of a secret: what is longer is another file.
const maxSecretBytes = 64 << 10

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// unknownVariables warns of variables that look like settings and are none.
func (s Set) unknownVariables(env map[string]string) []string {
	if s.Prefix == "" {
		return nil
	}
	known := slices.Clone(s.Others)
	for _, setting := range s.Settings {
		if setting.Env == "" {
			continue
		}
		known = append(known, setting.Env)
		if setting.Secret {
			known = append(known, setting.Env+"_FILE")
		}
	}
	var out []string
	for name := range env {
		foreign := slices.ContainsFunc(s.Foreign, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
		if strings.HasPrefix(name, s.Prefix) && !foreign && !slices.Contains(known, name) {
			out = append(out, fmt.Sprintf("the variable %s means nothing; was %s meant?", name, nearest(name, known)))
		}
	}
	slices.Sort(out)
	return out
}

// nearest is the name that needs the fewest edits.
func nearest(name string, known []string) string {
	return slices.MinFunc(known, func(a, b string) int { return distance(name, a) - distance(name, b) })
}

// distance is the number of edits between two names.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
