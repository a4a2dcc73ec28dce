package up

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/examples"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/problem/importer"
	"github.com/gavel-oj/gavel/internal/problem/intake"
)

// sampleWait bounds the judging of all examples: far more than they need, so
// that a broken set-up ends with an error instead of a silent wait.
const sampleWait = 15 * time.Minute

// judgeExamples imports each problem, hands in its example submissions and
// waits for every verdict.
func judgeExamples(ctx context.Context, problems []examples.Problem, api *client.Client, view View) ([]Sample, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, sampleWait, fmt.Errorf("the examples were not judged within %v", sampleWait))
	defer cancel()
	view.Step("importing the example problems")
	samples, err := importExamples(ctx, problems, api)
	if err != nil {
		return nil, err
	}
	view.Step(fmt.Sprintf("judging %d example submissions", len(samples)))
	finished := make(chan int)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	go func() {
		defer close(finished)
		for i := range samples {
			group.Go(func() error {
				sub, err := await(ctx, api, samples[i].Submission)
				if err != nil {
					return fmt.Errorf("%s %s: %w", samples[i].Problem, samples[i].Path, err)
				}
				samples[i].Submission = *sub
				finished <- i
				return nil
			})
		}
		err = group.Wait()
	}()
	verdicts, done := map[string]int{}, 0
	for i := range finished {
		done++
		verdicts[samples[i].Submission.Verdict]++
		view.Progress(done, len(samples), verdicts)
	}
	return samples, err
}

// await reads a submission until it is final.
func await(ctx context.Context, api *client.Client, sub gavelapi.Submission) (*gavelapi.Submission, error) {
	for {
		got, err := api.SubmissionGet(ctx, sub.ID, 20*time.Second)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err == nil && gavelapi.Final(got.State):
			return got, nil
		case err != nil:
			after, again := client.Temporary(err)
			if !again {
				return nil, err
			}
			if err := client.Sleep(ctx, max(after, 200*time.Millisecond)); err != nil {
				return nil, err
			}
		}
	}
}

// importExamples publishes every example and submits what is in their
// submissions folders, problem by problem.
func importExamples(ctx context.Context, problems []examples.Problem, api *client.Client) ([]Sample, error) {
	var samples []Sample
	for _, p := range problems {
		got, err := importExample(ctx, p, api)
		if err != nil {
			return nil, fmt.Errorf("example %s: %w", p.Name, err)
		}
		samples = append(samples, got...)
	}
	if len(samples) == 0 {
		return nil, errors.New("there are no example submissions")
	}
	return samples, nil
}

func importExample(ctx context.Context, p examples.Problem, api *client.Client) ([]Sample, error) {
	view, err := intake.OpenFS(p.FS)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	manifest, _, err := importer.Import(ctx, view, importer.Options{Name: p.Name})
	if err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	go func() {
		zw := zip.NewWriter(w)
		w.CloseWithError(errors.Join(zw.AddFS(p.FS), zw.Close()))
	}()
	_, err = api.ProblemImport(ctx, manifest.Name, r)
	r.CloseWithError(errors.New("the upload has ended"))
	if err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	samples := make([]Sample, 0, len(manifest.Submissions))
	for _, e := range manifest.Submissions {
		source, err := fs.ReadFile(view, e.Path)
		if err != nil {
			return nil, err
		}
		sub, err := api.SubmissionCreate(ctx, gavelapi.NewSubmission{
			Problem: manifest.Name, Language: e.Language, SourceBase64: source, SourceName: path.Base(e.Path), User: "examples",
		}, "")
		if err != nil {
			return nil, fmt.Errorf("submit %s: %w", e.Path, err)
		}
		samples = append(samples, Sample{Problem: manifest.Name, Path: e.Path, Language: e.Language, Expected: e.Expected, Submission: *sub})
	}
	return samples, nil
}
