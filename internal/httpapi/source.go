package httpapi

import (
	"bytes"
	"fmt"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
)

// checkSource refuses what would not be judged as it was sent: a NUL byte is a
// binary or a UTF-16 file more often than a program. inputs are texts that came
// with it and may hold any bytes. (What is no UTF-8 checkText refused already.)
func checkSource(sub gavelapi.NewSubmission, inputs ...gavelapi.RunInput) error {
	text, encoded := sub.Source != "", len(sub.SourceBase64) > 0
	switch {
	case text && encoded:
		return apperr.New(apperr.Invalid, "send only one of them", "source and source_base64 are both set").At("body.source")
	case !text && !encoded:
		return apperr.New(apperr.Invalid, "send the program in source, or in source_base64 when it is not UTF-8", "the source is missing or empty").At("body.source")
	}
	for i, f := range sub.Files {
		at := fmt.Sprintf("body.files[%d].content", i)
		if f.Content != "" && len(f.ContentBase64) > 0 {
			return apperr.New(apperr.Invalid, "send only one of them", "content and content_base64 are both set").At(at)
		}
		if bytes.IndexByte(f.ContentBase64, 0) >= 0 {
			return nulError(at + "_base64")
		}
	}
	for i, in := range inputs {
		at := fmt.Sprintf("body.inputs[%d].content", i)
		if in.Content != "" && len(in.ContentBase64) > 0 {
			return apperr.New(apperr.Invalid, "send only one of them", "content and content_base64 are both set").At(at)
		}
	}
	if bytes.IndexByte(sub.SourceBase64, 0) >= 0 {
		return nulError("body.source_base64")
	}
	return nil
}

func nulError(field string) error {
	return apperr.New(apperr.Invalid, "is it a compiled program, an archive, or text saved as UTF-16? save it as UTF-8 text",
		"the source contains NUL bytes").At(field)
}
