package reference_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/fact"
)

func TestHTTP(t *testing.T) {
	t.Parallel()
	past, future := metav1.NewTime(time.Now().Add(-time.Hour)), metav1.NewTime(time.Now().Add(time.Hour))
	login := &fact.Auth{URL: "https://svc/login", Username: "u", Password: "p", Lifetime: time.Minute}
	auth := func(change func(*v1alpha1.HttpRequestAuth)) *v1alpha1.HttpRequestAuth {
		a := &v1alpha1.HttpRequestAuth{AuthURL: login.URL, Username: "u", Password: "p", ExpireDuration: metav1.Duration{Duration: time.Minute}}
		change(a)
		return a
	}
	bearer := func(token string) map[string]string { return map[string]string{"Authorization": "Bearer " + token} }
	tests := []struct {
		http   v1alpha1.HttpDataRef
		want   fact.HTTP
		err    string
		reason string
	}{
		{v1alpha1.HttpDataRef{}, fact.HTTP{Method: "GET"}, "", "GET is the default"},
		{v1alpha1.HttpDataRef{Method: "POST", Header: map[string]string{"X-Pod": "{{metadata.name}}"}, Body: &apiextensionsv1.JSON{Raw: []byte(`{"q":"{{metadata.name}}"}`)}},
			fact.HTTP{Method: "POST", Header: map[string]string{"X-Pod": "{{metadata.name}}"}, Body: `{"q":"{{metadata.name}}"}`}, "", "header and body are sent as they are"},
		{v1alpha1.HttpDataRef{Auth: auth(func(a *v1alpha1.HttpRequestAuth) { a.StaticToken, a.Token = "st", "dyn" })},
			fact.HTTP{Method: "GET", Header: bearer("st")}, "", "the static token wins"},
		{v1alpha1.HttpDataRef{Auth: auth(func(a *v1alpha1.HttpRequestAuth) { a.Token = "dyn" })},
			fact.HTTP{Method: "GET", Header: bearer("dyn")}, "", "a stored token is used"},
		{v1alpha1.HttpDataRef{Auth: auth(func(a *v1alpha1.HttpRequestAuth) { a.Token, a.ExpireAt = "dyn", future })},
			fact.HTTP{Method: "GET", Header: bearer("dyn")}, "", "as long as it is valid"},
		{v1alpha1.HttpDataRef{Auth: auth(func(a *v1alpha1.HttpRequestAuth) { a.Token, a.ExpireAt = "dyn", past })},
			fact.HTTP{Method: "GET", Auth: login}, "", "not when it has expired"},
		{v1alpha1.HttpDataRef{Auth: auth(func(*v1alpha1.HttpRequestAuth) {})}, fact.HTTP{Method: "GET", Auth: login}, "", "without a token one is fetched"},
		{v1alpha1.HttpDataRef{Header: map[string]string{"authorization": "Basic x", "X": "y"}, Auth: &v1alpha1.HttpRequestAuth{StaticToken: "st"}},
			fact.HTTP{Method: "GET", Header: map[string]string{"Authorization": "Bearer st", "X": "y"}}, "", "auth wins over a header"},
		{v1alpha1.HttpDataRef{Auth: &v1alpha1.HttpRequestAuth{Username: "u"}}, fact.HTTP{}, "no available token", "nothing says where a token comes from"},
	}
	for _, test := range tests {
		test.http.URL = "http://svc/team"
		r := compile(t, &v1alpha1.ResourceRefer{From: v1alpha1.FromHTTP, Path: "body.team", Http: &test.http})
		ref, _, err := ask(r, object())
		if text(err) != test.err {
			t.Errorf("error %q, want %q: %s", text(err), test.err, test.reason)
		}
		if err != nil {
			continue
		}
		test.want.URL, test.want.Timeout = "http://svc/team", time.Second
		if diff := cmp.Diff(fact.Ref(&test.want), ref); diff != "" {
			t.Errorf("request (-want +got): %s\n%s", test.reason, diff)
		}
	}
}

func TestURL(t *testing.T) {
	t.Parallel()
	subject := func(value any) map[string]any { return map[string]any{"v": value, "w": "second"} }
	tests := []struct {
		url    string
		params map[string]string
		value  any
		want   string
		err    string
		reason string
	}{
		{url: "http://svc/ns/{{v}}", value: "shop", want: "http://svc/ns/shop", reason: "an ordinary value is unchanged"},
		{url: "http://svc/{{v}}/{{w}}", value: "a.b-c_d~e", want: "http://svc/a.b-c_d~e/second", reason: "two placeholders"},
		{url: "http://svc/ns/{{v}}", value: "a/b?c#d e", want: "http://svc/ns/a%2Fb%3Fc%23d%20e", reason: "a value stays one segment"},
		{url: "http://svc/ns/{{v}}/team", value: "..", err: "segment", reason: "a value does not lead out of its directory"},
		{url: "http://svc/ns/.{{v}}/team", value: ".", err: "segment", reason: "nor does half of it"},
		{url: "http://svc/a/../b/{{v}}", value: "x", want: "http://svc/a/../b/x", reason: "the policy's own dots are its business"},
		{url: "http://svc?q={{v}}", value: "a&b=c#d", want: "http://svc?q=a%26b%3Dc%23d", reason: "a value stays one parameter, also without a path"},
		{url: "http://svc/x?q={{v}}", value: "../y", want: "http://svc/x?q=..%2Fy", reason: "dots in a query lead nowhere"},
		{url: "http://{{v}}.svc:8080/x", value: "shop", want: "http://shop.svc:8080/x", reason: "part of the host"},
		{url: "http://svc:{{v}}/x", value: "8080", want: "http://svc:8080/x", reason: "the port"},
		{url: "http://{{v}}.svc/x", value: "evil.com/", err: "host", reason: "a slash would end the host"},
		{url: "http://{{v}}.svc/x", value: "u@evil.com#", err: "host", reason: "so would these"},
		{url: "http://{{v}}.svc/x", value: "evil.com:80\\", err: "host", reason: "and these"},
		{url: "http://svc/x", params: map[string]string{"b": "{{v}}", "a": "1"}, value: "c d&e", want: "http://svc/x?a=1&b=c+d%26e", reason: "parameters, sorted"},
		{url: "http://svc/x?a=1", params: map[string]string{"b": "2"}, want: "http://svc/x?a=1&b=2", reason: "a query goes on"},
		{url: "http://svc/x?", params: map[string]string{"b": "2"}, want: "http://svc/x?b=2", reason: "an empty query too"},
		{url: "http://svc/x#part", params: map[string]string{"b": "2"}, want: "http://svc/x?b=2", reason: "a fragment is not sent"},
		{url: "http://svc/{{v}}", value: int64(7), err: "not a string", reason: "only strings"},
	}
	for _, test := range tests {
		r := compile(t, &v1alpha1.ResourceRefer{From: v1alpha1.FromHTTP, Path: "body.team", Http: &v1alpha1.HttpDataRef{URL: test.url, Params: test.params}})
		ref, _, err := ask(r, subject(test.value))
		if !strings.Contains(text(err), test.err) || (err != nil) != (test.err != "") {
			t.Errorf("%s with %v: error %q, want %q: %s", test.url, test.value, text(err), test.err, test.reason)
		}
		if err == nil && ref.(*fact.HTTP).URL != test.want {
			t.Errorf("%s with %v is %s, want %s: %s", test.url, test.value, ref.(*fact.HTTP).URL, test.want, test.reason)
		}
	}
}

// TestHTTPWithoutPlaceholder: a placeholder that finds nothing keeps the request from
// being sent, and the answer is empty.
func TestHTTPWithoutPlaceholder(t *testing.T) {
	t.Parallel()
	for _, http := range []v1alpha1.HttpDataRef{
		{URL: "http://svc/{{v}}"},
		{URL: "http://svc", Params: map[string]string{"p": "{{v}}"}},
	} {
		r := compile(t, &v1alpha1.ResourceRefer{From: v1alpha1.FromHTTP, Path: "body.team", Http: &http})
		ref, value, err := ask(r, map[string]any{})
		if ref != nil || err != nil || !cmp.Equal(value, map[string]any{}) {
			t.Errorf("%s: asks for %v, has %v, %v; want an empty answer", http.URL, ref, value, err)
		}
	}
}
