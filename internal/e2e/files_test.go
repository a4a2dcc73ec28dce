package e2e

import (
	"os"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/testkit"
)

// Programs of several files, each with what the main file gets alone.
var severalFiles = []struct {
	language, alone, source string
	files                   []gavelapi.SourceFile
}{
	{
		"cpp17", "CE", "#include <cstdio>\n#include \"echo.h\"\nint main() { int n; scanf(\"%d\", &n); printf(\"%d\\n\", echo(n)); }\n",
		[]gavelapi.SourceFile{
			{Name: "echo.h", Content: "#pragma once\nint echo(int n);\n"},
			{Name: "echo.cpp", Content: "#include \"echo.h\"\nint echo(int n) { return n; }\n"},
		},
	},
	{
		"python3", "RE", "import helper\nprint(helper.echo(int(input())))\n",
		[]gavelapi.SourceFile{{Name: "helper.py", Content: "def echo(n):\n    return n\n"}},
	},
	{
		"java", "CE", "public class Main {\n    public static void main(String[] args) {\n" +
			"        System.out.println(new Echo(new java.util.Scanner(System.in).nextInt()).say());\n    }\n}\n",
		[]gavelapi.SourceFile{{Name: "Echo.java", Content: "public class Echo {\n    private final int n;\n    public Echo(int n) { this.n = n; }\n    public int say() { return n; }\n}\n"}},
	},
}

func TestSourcesOfSeveralFilesAreJudged(t *testing.T) {
	for id, program := range map[string]string{"cpp17": "/usr/bin/g++", "python3": "/usr/bin/python3", "java": "/usr/bin/javac"} {
		if _, err := os.Stat(program); err != nil {
			testkit.Missing(t, testkit.Lang, "%s: %v", id, err)
		}
	}
	b := newBench(t, "cpp17", "python3", "java")
	b.publish(t)
	for _, tt := range severalFiles {
		t.Run(tt.language, func(t *testing.T) {
			submit := func(files []gavelapi.SourceFile) gavelapi.Submission {
				sub, err := b.api.SubmissionCreate(t.Context(), gavelapi.NewSubmission{Problem: "echo", Language: tt.language, Source: tt.source, Files: files}, "")
				if err != nil {
					t.Fatal(err)
				}
				return b.final(t, sub.ID)
			}
			sub := submit(tt.files)
			wantOnce(t, sub, "AC")
			if sub.SourceFiles != 1+len(tt.files) || sub.SourceName == "" {
				t.Errorf("%d files, main %q", sub.SourceFiles, sub.SourceName)
			}
			if alone := submit(nil); alone.Verdict != tt.alone {
				t.Errorf("the main file alone gets %s, want %s", alone.Verdict, tt.alone)
			}
			if _, err := b.api.SubmissionRejudge(t.Context(), sub.ID, "once more"); err != nil {
				t.Fatal(err)
			}
			again := b.final(t, sub.ID)
			if n := len(again.Detail.Judgings); n != 2 || !again.Detail.Judgings[1].Current || again.Verdict != "AC" {
				t.Errorf("judged again: %s, %+v", again.Verdict, again.Detail.Judgings)
			}
		})
	}
}

// TestNewlyOfferedLanguageIsUsedAtOnce: a worker that is waiting for work
// passes a language's self-test. What waits for that language must not wait for
// the end of the worker's long-poll as well.
func TestNewlyOfferedLanguageIsUsedAtOnce(t *testing.T) {
	b := newBench(t, "c")
	b.publish(t)
	until(t, time.Minute, "the worker claims", func() bool {
		list, err := b.api.WorkerList(t.Context())
		return err == nil && len(list.Workers) == 1 && list.Workers[0].State == "idle"
	})
	sub, err := b.api.SubmissionCreate(t.Context(), gavelapi.NewSubmission{Problem: "echo", Language: "python3", Source: "print(input())"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if sub.State != gavelapi.StatePending {
		t.Fatalf("judged by a worker that does not offer its language: %s", sub.State)
	}
	from := time.Now()
	b.offer("python3")
	until(t, time.Minute, "it is given to the worker", func() bool {
		got, err := b.api.SubmissionGet(t.Context(), sub.ID, 0)
		return err == nil && got.State != gavelapi.StatePending
	})
	if late := time.Since(from); late > 5*time.Second {
		t.Errorf("it was given to the worker after %v", late)
	}
	wantOnce(t, b.final(t, sub.ID), "AC")
}
