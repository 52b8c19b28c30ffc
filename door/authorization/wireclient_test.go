package authorization_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/usher-dev/usher/internal/policytest"
)

// clientCases are of a list of answers that a webhook could give, and what an API server makes
// of each. That is API servers' business; what can be tested here is that our webhook gives
// none of the answers that they misunderstand.
func clientCases(d policytest.Document) ([]caseTest, error) {
	var answers []clientTest
	if err := d.Decode(&answers); err != nil {
		return nil, err
	}
	// What our webhook answers is found out once, when it is needed.
	given := map[string]func() ([]givenAnswer, error){}
	tests := make([]caseTest, len(answers))
	for i, a := range answers {
		if given[a.Version] == nil {
			given[a.Version] = sync.OnceValues(func() ([]givenAnswer, error) { return wireAnswers(context.Background(), a.Version) })
		}
		known := given[a.Version]
		tests[i] = caseTest{a.Name, func(context.Context) []string { return a.faults(known) }}
	}
	return tests, nil
}

type clientTest struct {
	Name string `json:"name"`
	// Version is that which the API server asks in.
	Version     string `json:"version"`
	Status      int    `json:"status"`
	ContentType string `json:"contentType,omitempty"`
	RetryAfter  string `json:"retryAfter,omitempty"`
	// Body may be a macro: see clientBodies.
	Body string `json:"body"`
	// Want is the verdict of the API server, after so many calls, with an error or without.
	Want  string `json:"want"`
	Calls int    `json:"calls"`
	Err   bool   `json:"err,omitempty"`
}

var clientBodies = map[string]string{
	"$OK":     `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":true}}`,
	"$OKBETA": `{"apiVersion":"authorization.k8s.io/v1beta1","kind":"SubjectAccessReview","status":{"allowed":true}}`,
	"$NOOP":   `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":false}}`,
	"$DENY":   `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":false,"denied":true}}`,
}

// faults compares the answer with all that our webhook gives. One that is among them has
// to be understood: one call, the verdict that was meant, and an error only where nothing
// was decided.
func (t *clientTest) faults(answers func() ([]givenAnswer, error)) []string {
	given, err := answers()
	if err != nil {
		return []string{err.Error()}
	}
	body := t.Body
	if macro, ok := clientBodies[body]; ok {
		body = macro
	}
	i := slices.IndexFunc(given, func(a givenAnswer) bool { return t.is(a.wireAnswer, body) })
	switch harmless := t.Calls == 1 && (!t.Err || t.Status != http.StatusOK); {
	case i < 0:
		return nil
	case !harmless:
		return []string{fmt.Sprintf("expected never to answer so, the state %q is answered %s", given[i].state, given[i].wireAnswer)}
	case t.Status == http.StatusOK && t.Want != given[i].verdict:
		return []string{fmt.Sprintf("expected an API server to understand %s, it takes it for %s", given[i].verdict, t.Want)}
	}
	return nil
}

// is reports whether an answer of ours is that of the case, as far as API servers look.
func (t *clientTest) is(a *wireAnswer, body string) bool {
	if a.status != t.Status || (a.header.Get("Retry-After") != "") != (t.RetryAfter != "") {
		return false
	}
	return a.status != http.StatusOK || sameStatus(a.body, []byte(body))
}

// sameStatus reports whether two reviews have the same version, kind and verdict.
func sameStatus(a, b []byte) bool {
	var left, right struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Status     map[string]any `json:"status"`
	}
	if json.Unmarshal(a, &left) != nil || json.Unmarshal(b, &right) != nil {
		return bytes.Equal(a, b)
	}
	flags := func(status map[string]any) string {
		failed, _ := status["evaluationError"].(string)
		return fmt.Sprint(status["allowed"] == true, status["denied"] == true, failed != "")
	}
	return left.APIVersion == right.APIVersion && left.Kind == right.Kind && flags(left.Status) == flags(right.Status)
}

// A givenAnswer is one that our webhook gives in a state.
type givenAnswer struct {
	*wireAnswer
	state, verdict string
}

// wireAnswers are the answers of our webhook in all states, to an API server that asks in
// this version, and to what no API server asks.
func wireAnswers(ctx context.Context, version string) ([]givenAnswer, error) {
	garbage, oldPath := "{", "/nowhere"
	var given []givenAnswer
	for _, ask := range []struct {
		state, verdict string
		test           wireTest
	}{
		{"", "Allow", wireTest{}},
		{"", "NoOpinion", wireTest{AccessRequest: policytest.AccessRequest{User: "joe", Verb: "get", Resource: "pods"}}},
		{"deny", "Deny", wireTest{}},
		{"costly-allow", "NoOpinion", wireTest{}},
		{"costly-deny", "Deny", wireTest{}},
		{"panic", "", wireTest{}},
		{"error", "", wireTest{}},
		{"not-ready", "", wireTest{}},
		{"slow", "", wireTest{}},
		{"", "", wireTest{RawBody: &garbage}},
		{"", "", wireTest{Method: http.MethodGet}},
		{"", "", wireTest{Path: oldPath}},
		{"", "", wireTest{BodyBytes: 2 << 20}},
	} {
		ask.test.State = ask.state
		a, err := wireAnswerTo(ctx, &ask.test, version)
		if err != nil {
			return nil, err
		}
		given = append(given, givenAnswer{a, ask.state, ask.verdict})
	}
	return given, nil
}

func wireAnswerTo(ctx context.Context, t *wireTest, version string) (*wireAnswer, error) {
	server, err := newWireServer(t.State, "")
	if err != nil {
		return nil, err
	}
	defer server.close()
	body, err := t.body()
	if err != nil {
		return nil, err
	}
	if version == "v1beta1" {
		body = []byte(strings.NewReplacer(`authorization.k8s.io/v1"`, `authorization.k8s.io/v1beta1"`, `"groups":`, `"group":`).Replace(string(body)))
	}
	a := server.send(ctx, t, body)
	if a.status == 0 {
		return nil, fmt.Errorf("ask webhook: %w", a.err)
	}
	return a, nil
}
