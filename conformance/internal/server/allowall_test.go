package server_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/conformance/internal/server"
)

func TestAllowAllAnswersWithoutOpinion(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		mux    *http.ServeMux
		path   string
		body   string
		code   int
		want   string
		reason string
	}{
		{
			"v1", server.Admit(), "/pods",
			`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","object":{"kind":"Pod"}}}`,
			200, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"1","allowed":true}}`,
			"the answer is of the version of the question",
		},
		{
			"v1beta1", server.Admit(), "/mutating-pods",
			`{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"2"}}`,
			200, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","response":{"uid":"2","allowed":true}}`,
			"the answer is of the version of the question",
		},
		{
			"marker", server.Admit(), "/always-deny",
			`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"3"}}`,
			200, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"3"}}`,
			"specs see that their registration is in force",
		},
		{
			"conversion", server.Convert(), "/crdconvert",
			`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"4","desiredAPIVersion":"stable.example.com/v2",
			  "objects":[{"apiVersion":"stable.example.com/v1","kind":"Host","hostPort":"a:1"}]}}`,
			200, `{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","response":{"uid":"4","convertedObjects":[` +
				`{"apiVersion":"stable.example.com/v2","hostPort":"a:1","kind":"Host"}],"result":{"metadata":{},"status":"Success"}}}`,
			"the API server refuses an answer of another version",
		},
		{"no review", server.Admit(), "/pods", `{}`, 400, "not a review with a request", "there is nothing to answer"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			recorder := httptest.NewRecorder()
			test.mux.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, test.path, strings.NewReader(test.body)))
			if recorder.Code != test.code {
				t.Errorf("code %d, want %d", recorder.Code, test.code)
			}
			if diff := cmp.Diff(test.want, strings.TrimSpace(recorder.Body.String())); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.reason, diff)
			}
		})
	}
}
