package doortest

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// RefusalsDoNotFillTheLog fails if a door over HTTP logs more than a line for each reason why
// requests are no reviews: anyone who can reach the door can send those. Open returns the door.
func RefusalsDoNotFillTheLog(t *testing.T, open func(*slog.Logger) http.Handler) {
	t.Helper()
	var text bytes.Buffer
	h := open(slog.New(slog.NewTextHandler(&text, nil)))
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
