package fact_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
)

type selector string

func (s selector) Matches(map[string]any) bool { return true }
func (s selector) String() string              { return string(s) }

func object(change func(*fact.Object)) fact.Ref {
	o := fact.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "site"}
	change(&o)
	return &o
}

func request(change func(*fact.HTTP)) fact.Ref {
	h := fact.HTTP{
		Method: "POST", URL: "https://cmdb.example/teams", Body: "b",
		Header:  map[string]string{"X-A": "1", "X-B": "2"},
		Trailer: map[string]string{"X-C": "3"},
		TLS:     &fact.TLS{CA: "ca", Cert: "cert", Key: "pem-key"},
		Auth:    &fact.Auth{URL: "https://auth.example", Username: "robot", Password: "secret"},
	}
	change(&h)
	return &h
}

func access(change func(*usher.Request)) fact.Ref {
	r := &usher.Request{
		Phase:       usher.Authorize,
		User:        usher.User{Name: "jane", UID: "7", Groups: []string{"a", "b"}, Extra: map[string][]string{"x": {"1"}, "y": {"2"}}},
		Resource:    schema.GroupVersionResource{Group: "apps", Version: "*", Resource: "deployments"},
		Subresource: "scale", Namespace: "shop", Name: "web",
		Access: &usher.Access{Verb: "update"},
	}
	change(r)
	return fact.Question{Request: r}
}

// different are refs no two of which mean the same fact.
func different() map[string]fact.Ref {
	same := func(*fact.Object) {}
	return map[string]fact.Ref{
		"object":                    object(same),
		"live":                      object(func(o *fact.Object) { o.Live = true }),
		"group":                     object(func(o *fact.Object) { o.APIVersion = "apps/v1" }),
		"kind":                      object(func(o *fact.Object) { o.Kind = "Secret" }),
		"namespace":                 object(func(o *fact.Object) { o.Namespace = "office" }),
		"cluster":                   object(func(o *fact.Object) { o.Namespace = "" }),
		"name":                      object(func(o *fact.Object) { o.Name = "page" }),
		"words moved":               object(func(o *fact.Object) { o.Kind, o.Namespace = "ConfigMap shop", "" }),
		"quotes":                    object(func(o *fact.Object) { o.Kind, o.Namespace = `ConfigMap" "shop`, "" }),
		"any scope":                 object(func(o *fact.Object) { o.AnyScope = true }),
		"no name":                   object(func(o *fact.Object) { o.Name = "" }),
		"selector":                  object(func(o *fact.Object) { o.Name, o.Selector = "", selector("a=b") }),
		"another selector":          object(func(o *fact.Object) { o.Name, o.Selector = "", selector("a=c") }),
		"request":                   request(func(*fact.HTTP) {}),
		"method":                    request(func(h *fact.HTTP) { h.Method = "GET" }),
		"url":                       request(func(h *fact.HTTP) { h.URL += "?a=b" }),
		"body":                      request(func(h *fact.HTTP) { h.Body = "c" }),
		"no header":                 request(func(h *fact.HTTP) { h.Header = nil }),
		"header":                    request(func(h *fact.HTTP) { h.Header = map[string]string{"X-A": "1", "X-B": "3"} }),
		"trailer":                   request(func(h *fact.HTTP) { h.Trailer = nil }),
		"header instead of trailer": request(func(h *fact.HTTP) { h.Header, h.Trailer = h.Trailer, h.Header }),
		"no tls":                    request(func(h *fact.HTTP) { h.TLS = nil }),
		"tls":                       request(func(h *fact.HTTP) { h.TLS = &fact.TLS{CA: "ca"} }),
		"no auth":                   request(func(h *fact.HTTP) { h.Auth = nil }),
		"user":                      request(func(h *fact.HTTP) { h.Auth.Username = "human" }),
		"password":                  request(func(h *fact.HTTP) { h.Auth.Password = "other" }),
		"auth url":                  request(func(h *fact.HTTP) { h.Auth.URL = "https://auth.example/2" }),
		"lifetime":                  request(func(h *fact.HTTP) { h.Auth.Lifetime = time.Hour }),
		"access":                    access(func(*usher.Request) {}),
		"asker":                     access(func(r *usher.Request) { r.User.Name = "joe" }),
		"uid":                       access(func(r *usher.Request) { r.User.UID = "8" }),
		"groups":                    access(func(r *usher.Request) { r.User.Groups = []string{"a b"} }),
		"extra":                     access(func(r *usher.Request) { r.User.Extra = map[string][]string{"x": {"1"}, "y": {"3"}} }),
		"verb":                      access(func(r *usher.Request) { r.Access.Verb = "get" }),
		"api group":                 access(func(r *usher.Request) { r.Resource.Group = "" }),
		"version":                   access(func(r *usher.Request) { r.Resource.Version = "v1" }),
		"resource":                  access(func(r *usher.Request) { r.Resource.Resource = "replicasets" }),
		"subresource":               access(func(r *usher.Request) { r.Subresource = "" }),
		"access elsewhere":          access(func(r *usher.Request) { r.Namespace = "" }),
		"access by name":            access(func(r *usher.Request) { r.Name = "" }),
		"labels":                    access(func(r *usher.Request) { r.Access.Labels = clause("a") }),
		"other labels":              access(func(r *usher.Request) { r.Access.Labels = clause("b") }),
		"fields":                    access(func(r *usher.Request) { r.Access.Fields = clause("a") }),
		"path":                      access(func(r *usher.Request) { r.Access.NonResource, r.Access.Path = true, "/a" }),
		"other path":                access(func(r *usher.Request) { r.Access.NonResource, r.Access.Path = true, "/b" }),
	}
}

func clause(key string) []usher.Requirement {
	return []usher.Requirement{{Key: key, Operator: "In", Values: []string{"v"}}}
}

func TestKeysTellFactsApart(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for name, ref := range different() {
		key := ref.Key()
		if other, ok := seen[key]; ok {
			t.Errorf("%s and %s have the same key, %s", name, other, key)
		}
		seen[key] = name
		if !strings.HasPrefix(key, string(ref.Sort())+" ") {
			t.Errorf("%s has the key %s, which does not begin with its sort", name, key)
		}
	}
}

func TestKeysOfTheSameFactAreEqual(t *testing.T) {
	t.Parallel()
	again := different()
	for name, ref := range different() {
		if ref.Key() != again[name].Key() {
			t.Errorf("%s: %s is not %s", name, ref.Key(), again[name].Key())
		}
	}
	tests := []struct {
		reason string
		a, b   fact.Ref
	}{
		{
			"a name makes the selector irrelevant",
			object(func(*fact.Object) {}), object(func(o *fact.Object) { o.Selector = selector("a=b") }),
		},
		{
			"how long to wait does not change the answer",
			request(func(*fact.HTTP) {}), request(func(h *fact.HTTP) { h.Timeout = time.Minute }),
		},
		{
			"the same question has another number",
			access(func(*usher.Request) {}), access(func(r *usher.Request) { r.UID = "2" }),
		},
		{
			"a question about a path is about nothing else",
			access(func(r *usher.Request) { r.Access.NonResource = true }),
			access(func(r *usher.Request) { r.Access.NonResource, r.Namespace = true, "" }),
		},
	}
	for _, tt := range tests {
		if tt.a.Key() != tt.b.Key() {
			t.Errorf("%s: %s is not %s", tt.reason, tt.a.Key(), tt.b.Key())
		}
	}
}

func TestRefString(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason string
		ref    fact.Ref
		want   string
	}{
		{"an object", object(func(*fact.Object) {}), "v1 ConfigMap shop/site"},
		{"of the cluster", object(func(o *fact.Object) { o.Kind, o.Namespace = "Node", "" }), "v1 Node site"},
		{"by selector", object(func(o *fact.Object) { o.Name, o.Selector = "", selector("a=b") }), "v1 ConfigMap shop/(a=b)"},
		{"a request", request(func(*fact.HTTP) {}), "POST https://cmdb.example/teams"},
		{"parameters may be secret", request(func(h *fact.HTTP) { h.URL += "?token=secret#secret" }), "POST https://cmdb.example/teams?…"},
		{"so are user and password", request(func(h *fact.HTTP) { h.URL = "https://robot:secret@cmdb.example/teams" }), "POST https://cmdb.example/teams"},
		{"what is no URL may be anything", request(func(h *fact.HTTP) { h.URL = "robot:secret@cmdb.example" }), "POST (a URL that cannot be read)"},
		{"what is broken too", request(func(h *fact.HTTP) { h.URL = "https://robot:secret@cmdb.example/%zz" }), "POST (a URL that cannot be read)"},
		{"access", access(func(*usher.Request) {}), "may jane update deployments.apps/scale web in namespace shop"},
		{"access to a path", access(func(r *usher.Request) { r.Access.NonResource, r.Access.Path = true, "/metrics" }), "may jane update /metrics"},
		{"access to everything of a kind", access(func(r *usher.Request) {
			r.Resource.Group, r.Subresource, r.Namespace, r.Name = "", "", "", ""
		}), "may jane update deployments"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			if got := tt.ref.String(); got != tt.want {
				t.Errorf("String is %q, want %q", got, tt.want)
			}
			if got := (&fact.Missing{Ref: tt.ref}).Error(); got != "fact not known: "+tt.want {
				t.Errorf("Missing says %q", got)
			}
		})
	}
}

func TestStringsHaveNoCredentials(t *testing.T) {
	t.Parallel()
	for name, ref := range different() {
		for _, secret := range []string{"robot", "secret", "pem-key", "X-A", "https://auth.example"} {
			if strings.Contains(ref.String(), secret) {
				t.Errorf("%s: %q contains %q", name, ref, secret)
			}
		}
	}
}

func TestKnown(t *testing.T) {
	t.Parallel()
	a, b, c := object(func(*fact.Object) {}), object(func(o *fact.Object) { o.Name = "b" }), object(func(o *fact.Object) { o.Name = "c" })
	broken := errors.New("broken")
	var known fact.Known
	known.Set(a, "value", nil)
	known.Set(b, nil, broken)

	if value, err := known.Value(object(func(*fact.Object) {})); value != "value" || err != nil {
		t.Errorf("known: %v, %v", value, err)
	}
	if value, err := known.Value(b); value != nil || !errors.Is(err, broken) {
		t.Errorf("known to be broken: %v, %v", value, err)
	}
	for name, k := range map[string]*fact.Known{"known others": &known, "nothing known": {}, "nil": nil} {
		value, err := k.Value(c)
		if missing, ok := errors.AsType[*fact.Missing](err); !ok || value != nil || missing.Ref != c {
			t.Errorf("%s: %v, %v", name, value, err)
		}
	}
	known.Set(b, "mended", nil)
	if value, err := known.Value(b); value != "mended" || err != nil {
		t.Errorf("set again: %v, %v", value, err)
	}
}

func TestSafe(t *testing.T) {
	t.Parallel()
	method := func(name string) fact.Ref { return request(func(h *fact.HTTP) { h.Method = name }) }
	for _, tt := range []struct {
		reason string
		ref    fact.Ref
		want   bool
	}{
		{"an object is read", object(func(*fact.Object) {}), true},
		{"no method is GET", method(""), true},
		{"GET", method("GET"), true},
		{"HEAD", method("HEAD"), true},
		{"POST", method("POST"), false},
		{"PUT", method("PUT"), false},
		{"a question about access", access(func(*usher.Request) {}), true},
		{"methods are in upper case: this one is unknown", method("get"), false},
	} {
		if got := tt.ref.Safe(); got != tt.want {
			t.Errorf("%s: safe %v, want %v", tt.reason, got, tt.want)
		}
	}
}

func TestKnownTellsThatASecretWasRead(t *testing.T) {
	t.Parallel()
	secret, plain := object(func(o *fact.Object) { o.Kind = "Secret" }), object(func(*fact.Object) {})
	missing := object(func(o *fact.Object) { o.Kind, o.Name = "Secret", "missing" })
	var known fact.Known
	known.Set(secret, "value", nil)
	known.Set(plain, "value", nil)
	known.Set(missing, nil, errors.New("not found"))
	for _, tt := range []struct {
		reason string
		read   []fact.Ref
		want   bool
	}{
		{"nothing was read", nil, false},
		{"a ConfigMap was read", []fact.Ref{plain}, false},
		{"a Secret that does not exist discloses nothing", []fact.Ref{missing}, false},
		{"a Secret was read, and then a ConfigMap", []fact.Ref{secret, plain}, true},
		{"nothing was read since", nil, false},
	} {
		for _, ref := range tt.read {
			_, _ = known.Value(ref)
		}
		if got := known.Disclosed(); got != tt.want {
			t.Errorf("%s: disclosed %v, want %v", tt.reason, got, tt.want)
		}
	}
}

func BenchmarkKnown(b *testing.B) {
	var known fact.Known
	ref := object(func(*fact.Object) {})
	known.Set(ref, "value", nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := known.Value(ref); err != nil {
			b.Fatal(err)
		}
	}
}

// TestRemembered: who judges many objects does not read each of their lists from the API server.
func TestRemembered(t *testing.T) {
	t.Parallel()
	live := object(func(o *fact.Object) { o.Live = true })
	var got fact.Ref
	resolver := fact.Remembered(fact.ResolverFunc(func(_ context.Context, ref fact.Ref) (any, error) {
		got = ref
		return nil, nil
	}))
	if _, err := resolver.Resolve(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	if want := object(func(*fact.Object) {}); got.Key() != want.Key() || !live.(*fact.Object).Live {
		t.Errorf("resolved %s, want %s", got.Key(), want.Key())
	}
}
