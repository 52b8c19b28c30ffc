package admission_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	usher "github.com/usher-dev/usher"
)

// FuzzHandler checks that whatever comes is either refused with a 4xx or answered with a
// review that an API server takes.
func FuzzHandler(f *testing.F) {
	for _, body := range reviews(f) {
		f.Add(body, "application/json", "timeout=10s", "message")
	}
	review := fmt.Sprintf(small, "")
	f.Add([]byte(review), "application/json; charset=x", "timeout=1ns&%", "\x00\n\xff")
	f.Add([]byte(review+review), "text/json", "", "")
	f.Add([]byte(strings.Repeat(`{"a":[`, 2000)), "application/json", "timeout", strings.Repeat("x", 5000))
	f.Add([]byte(fmt.Sprintf(small, `,"oldObject":{"a":"`+strings.Repeat("x", 70000)+`"}`)), "application/json", "", "")
	const maxBody = 64 << 10
	f.Fuzz(func(t *testing.T, body []byte, contentType, query, text string) {
		decider := usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
			object, err := r.Target().Tree()
			if err != nil {
				return usher.Decision{}, err
			}
			d := usher.Patched(usher.PatchOp{Op: "add", Path: text, Value: object})
			d.Message, d.Warnings, d.Audit = text, []string{text, r.Name}, map[string]string{text: text, r.Name: text}
			if r.DryRun {
				d.Verdict = usher.Deny
				d.Findings = []usher.Finding{{Outcome: usher.Rejected, Message: text, Rule: text}}
			}
			return d, nil
		})
		options := quiet()
		options.MaxBody = maxBody
		for phase, handler := range handlers(decider, options) {
			r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
			r.URL.RawQuery = query
			r.Header.Set("Content-Type", contentType)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			switch {
			case w.Code >= 400 && w.Code < 500 && w.Body.Len() > 0:
			case w.Code != http.StatusOK:
				t.Errorf("%s: %d %s", phase, w.Code, w.Body)
			case len(body) <= maxBody && json.Valid(body) && !strings.Contains(w.Body.String(), "nested more than"):
				verify(t, phase, body, w.Body.Bytes())
			default:
				// What was sent breaks off or is too deep: the uid is all that is known.
				var answer struct{ Response struct{ UID string } }
				if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || answer.Response.UID == "" {
					t.Errorf("%s: %v: %s", phase, err, w.Body)
				}
			}
		}
	})
}
