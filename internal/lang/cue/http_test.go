package cue_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/cue"
	"github.com/usher-dev/usher/internal/rule"
)

func cart() map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": "cart", "namespace": "shop"},
	}
}

// fetching is a source that makes a request of the block and patches with the answer.
func fetching(output, block string) string {
	return "object: _\nprocessing: {\noutput: " + output + "\nhttp: " + block + "\n}\n" +
		"patches: [{op: \"add\", path: \"/x\", value: processing.output}]"
}

func TestHTTPRequest(t *testing.T) {
	t.Parallel()
	jsonHeader := map[string]string{"Content-Type": "application/json"}
	for _, tt := range []struct {
		reason string
		block  string
		want   fact.HTTP
		err    string
	}{
		{"the least", `{method: "GET", url: "http://a.test/\(object.metadata.name)"}`,
			fact.HTTP{Method: "GET", URL: "http://a.test/cart", Header: jsonHeader}, ""},
		{"defaults are concrete", `{method: *"GET" | string, url: "http://a.test/"}`,
			fact.HTTP{Method: "GET", URL: "http://a.test/", Header: jsonHeader}, ""},
		{"everything", `{method: "POST", url: "http://a.test/", request: {body: "b", header: {A: "1", "X-B": "2"}, trailer: T: "3"},
			tls_config: {ca: "CA", client_crt: "CRT", client_key: 'KEY'}}`,
			fact.HTTP{Method: "POST", URL: "http://a.test/", Body: "b", Header: map[string]string{"A": "1", "X-B": "2"},
				Trailer: map[string]string{"T": "3"}, TLS: &fact.TLS{CA: "CA", Cert: "CRT", Key: "KEY"}}, ""},
		{"bytes are a body", `{method: "POST", url: "http://a.test/", request: body: 'b'}`,
			fact.HTTP{Method: "POST", URL: "http://a.test/", Body: "b", Header: jsonHeader}, ""},
		{"an empty header block means no header", `{method: "GET", url: "http://a.test/", request: header: {}}`,
			fact.HTTP{Method: "GET", URL: "http://a.test/", Header: map[string]string{}}, ""},
		{"half a client certificate counts for nothing", `{method: "GET", url: "http://a.test/", tls_config: {ca: "CA", client_crt: "CRT"}}`,
			fact.HTTP{Method: "GET", URL: "http://a.test/", Header: jsonHeader, TLS: &fact.TLS{CA: "CA"}}, ""},
		{"no url", `{method: "GET"}`, fact.HTTP{}, "fail to exec http task, parse url"},
		{"no method", `{url: "http://a.test/"}`, fact.HTTP{}, "fail to exec http task, parse method"},
		{"a url that depends on what is missing", `{method: "GET", url: object.metadata.labels.url}`, fact.HTTP{}, "fail to exec http task, parse url"},
		{"a url that is no string", `{method: "GET", url: 1}`, fact.HTTP{}, "fail to exec http task, parse url"},
		{"no certificate authority", `{method: "GET", url: "http://a.test/", tls_config: {}}`, fact.HTTP{}, "fail to exec http task, parse ca"},
		{"a header that is no string", `{method: "GET", url: "http://a.test/", request: header: A: 1}`, fact.HTTP{}, "parse request.header"},
		{"a body that is no string", `{method: "GET", url: "http://a.test/", request: body: 1}`, fact.HTTP{}, "parse request.body"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			p := compile(t, "override/", fetching("{}", tt.block), cue.Options{})
			_, err := p.Run(context.Background(), &rule.Input{Object: cart(), Facts: &fact.Known{}})
			var missing *fact.Missing
			if tt.err != "" {
				if err == nil || errors.As(err, &missing) || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error is %v, want %q", err, tt.err)
				}
				return
			}
			if !errors.As(err, &missing) {
				t.Fatalf("error is %v, not a missing fact", err)
			}
			tt.want.Timeout = 3 * time.Second
			if diff := cmp.Diff(fact.Ref(&tt.want), missing.Ref); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHTTPAnswer(t *testing.T) {
	t.Parallel()
	object := func(body any) any { return map[string]any{"body": body, "header": map[string]any{}} }
	for _, tt := range []struct {
		reason string
		output string
		answer any
		err    error
		want   any
		fails  string
	}{
		{"what the service says", `{}`, object(map[string]any{"a": "b", "n": nil}), nil, map[string]any{"a": "b", "n": nil}, ""},
		{"whole numbers are integers", `{count?: int}`, object(map[string]any{"count": 7.0}), nil, map[string]any{"count": int64(7)}, ""},
		{"and numbers too", `{count?: number}`, object(map[string]any{"count": int64(7)}), nil, map[string]any{"count": int64(7)}, ""},
		{"fractions are not", `{count?: int}`, object(map[string]any{"count": 7.5}), nil, nil, "conflicting values"},
		{"a conflict", `{team?: string}`, object(map[string]any{"team": int64(7)}), nil, nil, "conflicting values"},
		{"something is left open", `{team: string}`, object(map[string]any{}), nil, nil, "incomplete value"},
		{"no object", `{}`, object([]any{}), nil, nil, "fail to exec http task, the body of the answer is not a JSON object"},
		{"no body", `{}`, nil, nil, nil, "fail to exec http task, the body of the answer is not a JSON object"},
		{"no answer", `{}`, nil, errors.New("connection refused"), nil, "fail to exec http task, connection refused"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			p := compile(t, "override/", fetching(tt.output, `{method: "GET", url: "http://a.test/"}`), cue.Options{})
			in := &rule.Input{Object: cart(), Facts: &fact.Known{}}
			_, err := p.Run(context.Background(), in)
			var missing *fact.Missing
			if !errors.As(err, &missing) {
				t.Fatalf("error is %v, not a missing fact", err)
			}
			in.Facts.Set(missing.Ref, tt.answer, tt.err)
			outcome, err := p.Run(context.Background(), in)
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) {
					t.Errorf("error is %v, want %q", err, tt.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := rule.Outcome{Patch: usher.Patch{{Op: "add", Path: "/x", Value: tt.want}}}
			if diff := cmp.Diff(want, outcome); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHTTPUnderCondition(t *testing.T) {
	t.Parallel()
	source := `object: _
processing: {
	output: {}
	if object.metadata.name == "other" {
		http: {method: "GET", url: "http://a.test/"}
	}
}
patches: [{op: "remove", path: "/x"}]`
	p := compile(t, "override/", source, cue.Options{})
	outcome, err := p.Run(context.Background(), &rule.Input{Object: cart(), Facts: &fact.Known{}})
	if err != nil || len(outcome.Patch) != 1 {
		t.Errorf("a request that is not wanted: outcome %v, error %v", outcome, err)
	}
}
