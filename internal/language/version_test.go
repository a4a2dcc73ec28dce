package language_test

import (
	"testing"

	"github.com/gavel-oj/gavel/internal/language"
)

func TestAVersionIsANameAndANumber(t *testing.T) {
	for line, want := range map[string]string{
		"g++ (Debian 12.2.0-14+deb12u1) 12.2.0":        "g++ 12.2.0",
		"gcc (GCC) 15.1.1 20250521 (Red Hat 15.1.1-2)": "gcc 15.1.1",
		"Python 3.11.2": "Python 3.11.2",
		"Python 3.9.16 (7.3.11+dfsg-2+deb12u3, Dec 30 2024, 22:36:23)": "Python 3.9.16",
		"go version go1.26.1 linux/amd64":                              "go 1.26.1",
		"v18.20.4":                                                     "prog 18.20.4",
		"3.2.2":                                                        "prog 3.2.2",
		"javac 17.0.15":                                                "javac 17.0.15",
		"openjdk 17.0.15 2025-04-15":                                   "openjdk 17.0.15",
		"ruby 3.1.2p20 (2022-04-12 revision 4491bb740a) [x86_64-linux-gnu]":  "ruby 3.1.2p20",
		"GNU bash, version 5.2.15(1)-release (x86_64-pc-linux-gnu)":          "GNU bash 5.2.15",
		"Mono C# compiler version 6.8.0.105":                                 "Mono C# compiler 6.8.0.105",
		"The Glorious Glasgow Haskell Compilation System, version 9.0.2":     "The Glorious Glasgow Haskell Compilation System 9.0.2",
		"info: kotlinc-jvm 1.3.31 (JRE 17.0.15+6-Debian-1deb12u1)":           "kotlinc-jvm 1.3.31",
		"Lua 5.4.4  Copyright (C) 1994-2022 Lua.org, PUC-Rio":                "Lua 5.4.4",
		"Free Pascal Compiler version 3.2.2+dfsg-20 [2023/03/30] for x86_64": "Free Pascal Compiler 3.2.2",
		"rustc 1.63.0": "rustc 1.63.0",
		"warning: Options are deprecated in 13\nkotlinc-jvm 1.3.31": "kotlinc-jvm 1.3.31",
		"something  that says nothing":                              "something that says nothing",
	} {
		if got := language.ShortVersion("/usr/bin/prog", line); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
