package authorization_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/authorization"
)

// Whoever can reach the door can send what is no review. One line a reason is enough.
func TestRefusalsDoNotFillTheLog(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	h := authorization.Authorize(usher.DeciderFunc(nil), authorization.Options{Log: slog.New(slog.NewTextHandler(&text, nil))})
	for range 100 {
		for _, sent := range []struct{ kind, body string }{{"application/json", "{}"}, {"application/json", "{"}, {"text/plain", "{}"}} {
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(sent.body))
			r.Header.Set("Content-Type", sent.kind)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != http.StatusBadRequest && w.Code != http.StatusUnsupportedMediaType {
				t.Fatalf("%q is answered with status %d: %s", sent.body, w.Code, w.Body)
			}
		}
	}
	if lines := strings.Count(text.String(), "\n"); lines != 2 {
		t.Errorf("300 requests with 2 faults make %d lines:\n%s", lines, &text)
	}
}
