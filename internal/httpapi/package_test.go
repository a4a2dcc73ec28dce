package httpapi_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/gavel-oj/gavel/internal/httpapi/apitest"
)

// What the archive of a Fake has is no archive: sent as a tar it must not end
// as a whole one does.
func TestAPackageThatCannotBeDecompressedIsNoEmptyOne(t *testing.T) {
	r := newRig(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.srv.URL+"/v1/worker/packages/"+apitest.Digest, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+apitest.WorkerToken)
	req.Header.Set("Gavel-Protocol", "1")
	req.Header.Set("Accept", "application/x-tar")
	resp, err := r.srv.Client().Do(req)
	if err == nil {
		defer resp.Body.Close()
		_, err = io.ReadAll(resp.Body)
	}
	if err == nil {
		t.Errorf("it was answered %s, and the answer ended as if it were whole", resp.Status)
	}
}
