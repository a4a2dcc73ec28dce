package icpc

import (
	"io/fs"
	"strconv"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/problem"
)

var answersOnly = pkg(map[string]string{"data/secret/01.in-": "", "data/sample/1.in-": ""})

func TestTestsWithoutInputsGetEmptyOnes(t *testing.T) {
	m := load(t, answersOnly)
	want := []problem.Test{
		{Name: "sample/1", Sample: true, Input: "data/sample/1.in", Answer: "data/sample/1.ans"},
		{Name: "secret/01", Input: "data/secret/01.in", Answer: "data/secret/01.ans"},
	}
	if diff := cmp.Diff(want, m.Tests); diff != "" {
		t.Error(diff)
	}
	// It is the package that has them: the same bytes, the same digest.
	written := pkg(map[string]string{"data/secret/01.in": "", "data/sample/1.in": ""})
	with := load(t, written)
	m.Warnings = nil
	if diff := cmp.Diff(with, m); diff != "" {
		t.Error(diff)
	}
	files := WithInputs(answersOnly, m)
	for _, f := range m.Files {
		text, err := fs.ReadFile(files, f.Path)
		if err != nil || string(text) != string(written[f.Path].Data) {
			t.Errorf("%s: %q, %v", f.Path, text, err)
		}
	}
	if _, err := files.Open("data/secret/02.in"); err == nil {
		t.Error("an input is there that no test has")
	}
	if same := WithInputs(written, with); !cmp.Equal(same, fs.FS(written)) {
		t.Error("a package that is whole is not itself")
	}
}

func TestAnInteractorMayDoWithoutInputs(t *testing.T) {
	m := load(t, pkg(map[string]string{
		"data/secret/01.in-": "", "data/sample/1.in-": "", "problem.yaml": head2025 + "limits: {time_limit: 1}\ntype: interactive\n", "output_validator/v.py": "",
	}))
	if m.Checker.Kind != problem.CheckerInteractor || len(m.Tests) != 2 || m.Tests[1].Input != "data/secret/01.in" {
		t.Errorf("%+v", m)
	}
}

func TestEmptyInputsCountAsFiles(t *testing.T) {
	fsys := fstest.MapFS{"problem.yaml": &fstest.MapFile{Data: []byte(head2025 + "limits: {time_limit: 1}\n")}}
	for i := range problem.MaxFiles/2 + 1 {
		fsys["data/secret/"+strconv.Itoa(i)+".ans"] = &fstest.MapFile{}
	}
	_, err := Import(t.Context(), fsys, Options{Fallback: "sum"})
	if apperr.CodeOf(err) != apperr.TooLarge {
		t.Errorf("error %v", err)
	}
}
