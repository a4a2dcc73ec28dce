package up

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
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

// importExamples imports every example, waits until all are published, and
// submits what is in their submissions folders, problem by problem. Preparing
// them leaves those out: each would be judged twice.
func importExamples(ctx context.Context, problems []examples.Problem, api *client.Client) ([]Sample, error) {
	names := make([]string, len(problems))
	for i, p := range problems {
		var err error
		if names[i], err = importExample(ctx, p, api); err != nil {
			return nil, fmt.Errorf("example %s: %w", p.Name, err)
		}
	}
	var samples []Sample
	for i, p := range problems {
		if err := awaitPublished(ctx, api, names[i]); err != nil {
			return nil, fmt.Errorf("example %s: %w", p.Name, err)
		}
		got, err := submitExample(ctx, p, names[i], api)
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

// importExample hands a package in and returns the name of its problem.
func importExample(ctx context.Context, p examples.Problem, api *client.Client) (string, error) {
	r, w := io.Pipe()
	go func() {
		zw := zip.NewWriter(w)
		w.CloseWithError(errors.Join(zw.AddFS(p.FS), zw.Close()))
	}()
	info, err := api.ProblemImport(ctx, client.Import{Name: p.Name, Verify: gavelapi.VerifyData}, r)
	r.CloseWithError(errors.New("the upload has ended"))
	if err != nil {
		return "", fmt.Errorf("import: %w", err)
	}
	return info.Name, nil
}

// awaitPublished waits for the end of a problem's preparation, if it has one.
func awaitPublished(ctx context.Context, api *client.Client, name string) error {
	for {
		rep, err := api.ProblemReport(ctx, name, 0, 20*time.Second)
		var after time.Duration
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			if p, ok := errors.AsType[*gavelapi.Problem](err); ok && p.Status == http.StatusNotFound {
				return nil // live since before there were preparations
			}
			var again bool
			if after, again = client.Temporary(err); !again {
				return err
			}
			after = max(after, 200*time.Millisecond)
		case rep.State == gavelapi.PreparationPublished:
			return nil
		case rep.State != gavelapi.PreparationPreparing:
			return fmt.Errorf("it is not published: %s; gavel problem report %s says more", rep.Message, name)
		}
		if err := client.Sleep(ctx, after); err != nil {
			return err
		}
	}
}

// submitExample hands in what a package declares.
func submitExample(ctx context.Context, p examples.Problem, name string, api *client.Client) ([]Sample, error) {
	view, err := intake.OpenFS(p.FS)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	manifest, _, err := importer.Import(ctx, view, importer.Options{Name: p.Name})
	if err != nil {
		return nil, err
	}
	samples := make([]Sample, 0, len(manifest.Submissions))
	for _, e := range manifest.Submissions {
		source, err := fs.ReadFile(view, e.Path)
		if err != nil {
			return nil, err
		}
		sub, err := api.SubmissionCreate(ctx, gavelapi.NewSubmission{
			Problem: name, Language: e.Language, SourceBase64: source, SourceName: path.Base(e.Path), User: "examples",
		}, "")
		if err != nil {
			return nil, fmt.Errorf("submit %s: %w", e.Path, err)
		}
		samples = append(samples, Sample{Problem: name, Path: e.Path, Language: e.Language, Expected: e.Expected, Submission: *sub})
	}
	return samples, nil
}
