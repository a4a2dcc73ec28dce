// Package cmdline is the frame that the command lines of all programs share:
// it parses with kong, in words that say what is wrong, shows the help, and
// runs the command. What an error looks like and which exit code it has stays
// with each program.
package cmdline

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"
)

// ExitUsage is the exit code of wrong usage in every program
// (docs/reference/exit-codes.md).
const ExitUsage = 2

// Program is one command line.
type Program struct {
	Name, Description string
	Out, Err          io.Writer
	Options           []kong.Option // variables and what commands get
}

// Usage is an error of the command line itself.
type Usage struct {
	Message string
	Hint    string // the command whose help says how
}

func (u *Usage) Error() string { return u.Message }

// exited unwinds kong when it wants to end the program after --help.
type exited int

// Run parses args into grammar and runs the command. report prints an error,
// *Usage for those of parsing, and turns it into the exit code; nil is 0.
// Grammar that kong does not take panics: a programmer's mistake that every
// test meets.
func (p Program) Run(grammar any, args []string, report func(error) int) (code int) {
	help := p.Out
	if len(args) == 0 {
		// Whoever asks for nothing is shown what there is. It is no result, though.
		args, help = []string{"--help"}, p.Err
		defer func() { code = ExitUsage }()
	}
	for _, arg := range args {
		// kong would put replacement characters for the bytes: another name.
		if !utf8.ValidString(arg) {
			return report(&Usage{Message: fmt.Sprintf("the argument %q is not UTF-8", arg), Hint: "give it in UTF-8; rename a file whose name is not"})
		}
	}
	parser, err := kong.New(grammar, append([]kong.Option{
		kong.Name(p.Name),
		kong.Description(p.Description),
		kong.Writers(help, p.Err),
		kong.Exit(func(code int) { panic(exited(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
	}, p.Options...)...)
	if err != nil {
		panic(err)
	}
	defer func() {
		if r := recover(); r != nil {
			c, ok := r.(exited)
			if !ok {
				panic(r)
			}
			code = int(c)
		}
	}()
	kctx, err := parser.Parse(args)
	if err != nil {
		return report(p.usage(err))
	}
	for _, at := range kctx.Path {
		// An unset variable of a script, most likely.
		if at.Positional != nil && at.Positional.Target.Kind() == reflect.String && at.Positional.Target.IsZero() {
			return report(&Usage{Message: fmt.Sprintf("the argument <%s> is empty", at.Positional.Name), Hint: p.words(kctx) + " --help shows the usage"})
		}
	}
	return report(kctx.Run())
}

// words are the program and its command.
func (p Program) words(kctx *kong.Context) string {
	words := []string{p.Name}
	for _, at := range kctx.Path {
		if at.Command != nil {
			words = append(words, at.Command.Name)
		}
	}
	return strings.Join(words, " ")
}

// usage is kong's complaint with a hint that names the right help.
func (p Program) usage(err error) error {
	words := p.Name
	if pe, ok := errors.AsType[*kong.ParseError](err); ok && pe.Context != nil {
		words = p.words(pe.Context)
	}
	return &Usage{Message: plainWords(err.Error()), Hint: words + " --help shows the usage"}
}

var (
	enumChoice     = regexp.MustCompile(`^(--\S+ must be one of ("[^"]+",?)+),"" but got (.*)$`)
	negativeValue  = regexp.MustCompile(`^(--\S+): expected \w+ value but got "(-[0-9.]+)" \(short flag\)`)
	noDuration     = regexp.MustCompile(`^(--\S+): expected duration (?:value )?but got "([^"]*)"`)
	negativeNumber = regexp.MustCompile(`^unknown flag (-[0-9]+)\b`)
)

// plainWords rewrites what kong says of its own parsing into what is wrong: no
// flag, no number and no duration of ours is negative, and "" in a list of choices is the
// flag that is left out.
func plainWords(message string) string {
	if m := enumChoice.FindStringSubmatch(message); m != nil {
		return m[1] + " but got " + m[3]
	}
	if m := negativeValue.FindStringSubmatch(message); m != nil {
		return m[1] + " cannot be negative, and " + m[2] + " is"
	}
	if m := noDuration.FindStringSubmatch(message); m != nil {
		if strings.HasPrefix(m[2], "-") {
			return m[1] + " cannot be negative, and " + m[2] + " is; write a duration such as 90s, 45m or 2h"
		}
		return fmt.Sprintf("%s: %q is no duration; write one such as 90s, 45m or 2h", m[1], m[2])
	}
	if m := negativeNumber.FindStringSubmatch(message); m != nil {
		return m[1] + " is no number that anything has: numbers start at 1"
	}
	return message
}
