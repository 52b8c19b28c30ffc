package transport_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/transport"
)

const (
	one  = "/api/v1/namespaces/shop/configmaps/a"
	many = "/api/v1/namespaces/shop/configmaps"
)

// TestConditions shows what is sent for what: always what was decided, on condition that
// the object is still the one for which that was.
func TestConditions(t *testing.T) {
	t.Parallel()
	conflict := `{"kind":"Status","apiVersion":"v1","status":"Failure","code":409,"reason":"Conflict","message":"changed"}`
	version8 := strings.ReplaceAll(version7, `"7"`, `"8"`)
	put := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`
	odd := strings.ReplaceAll(version7, `"ConfigMap"`, `"Odd"`)
	get7, get8 := step{method: "GET", path: one, answer: version7}, step{method: "GET", path: one, answer: version8}
	for _, test := range []struct {
		reason, method, contentType, body string
		decide                            usher.DeciderFunc
		steps                             []step
		code                              int
	}{
		{
			"an update without a version is for the one that was decided", "PUT", "application/json", put, allow,
			[]step{get7, {method: "PUT", path: one, body: `"resourceVersion":"7"`}}, 200,
		},
		{
			"an update with a version is sent as it is", "PUT", "application/json", strings.Replace(put, `"a"`, `"a","resourceVersion":"6"`, 1), allow,
			[]step{get7, {method: "PUT", path: one, body: `"resourceVersion":"6"`, code: 409, answer: conflict}}, 409,
		},
		{
			"an update is decided again when the object has changed", "PUT", "application/json", put, label,
			[]step{
				get7, {method: "PUT", path: one, body: `"7"`, code: 409, answer: conflict},
				get8, {method: "PUT", path: one, body: `"labels":{"team":"shop"},"name":"a","namespace":"shop","resourceVersion":"8"`},
			}, 200,
		},
		{
			"a conflict that is about something else is the client's", "PUT", "application/json", put, allow,
			[]step{get7, {method: "PUT", path: one, code: 409, answer: conflict}, get7}, 409,
		},
		{
			"a merge patch", "PATCH", "application/merge-patch+json", `{"data":{"a":"1"}}`, allow,
			[]step{get7, {method: "PATCH", path: one, body: `{"data":{"a":"1"},"metadata":{"resourceVersion":"7"}}`, contentType: "application/merge-patch+json"}}, 200,
		},
		{
			"a merge patch with a version of its own", "PATCH", "application/merge-patch+json", `{"metadata":{"resourceVersion":"6"}}`, allow,
			[]step{get7, {method: "PATCH", path: one, body: `{"metadata":{"resourceVersion":"6"}}`, code: 409, answer: conflict}}, 409,
		},
		{
			"a JSON patch", "PATCH", "application/json-patch+json", `[{"op":"remove","path":"/data/old"}]`, allow,
			[]step{get7, {
				method: "PATCH", path: one, contentType: "application/json-patch+json",
				body: `[{"op":"remove","path":"/data/old"},{"op":"add","path":"/metadata/resourceVersion","value":"7"}]`,
			}}, 200,
		},
		{
			"a patch that does not apply here is not written undecided", "PATCH", "application/json-patch+json", `[{"op":"replace","path":"/metadata/labels/x","value":"2"}]`, deny,
			[]step{get7, {method: "PATCH", path: one, query: "dryRun=All", body: `"replace"`}, get7}, 409,
		},
		{
			"one that applies once the object has changed is decided then", "PATCH", "application/json-patch+json", `[{"op":"replace","path":"/metadata/labels/x","value":"2"}]`, deny,
			[]step{get7, {method: "PATCH", path: one, query: "dryRun=All"}, {method: "GET", path: one, answer: strings.Replace(version8, `"name"`, `"labels":{"x":"1"},"name"`, 1)}}, 400,
		},
		{
			"what the server says of a patch that does not apply is the client's", "PATCH", "application/merge-patch+json", `{"data":`, deny,
			[]step{get7, {method: "PATCH", path: one, query: "dryRun=All", code: 400, answer: `{"kind":"Status","apiVersion":"v1","status":"Failure","code":400,"reason":"BadRequest","message":"no JSON"}`}}, 400,
		},
		{
			"a JSON patch with changes is what leads to the result", "PATCH", "application/json-patch+json", `[{"op":"remove","path":"/data/old"}]`, label,
			[]step{get7, {
				method: "PATCH", path: one, contentType: "application/merge-patch+json",
				body: `{"data":{"old":null},"metadata":{"labels":{"team":"shop"},"resourceVersion":"7"}}`,
			}}, 200,
		},
		{
			"a strategic merge patch", "PATCH", "application/strategic-merge-patch+json", `{"data":{"$patch":"replace","a":"1"}}`, label,
			[]step{get7, {
				method: "PATCH", path: one, contentType: "application/merge-patch+json",
				body: `{"data":{"a":"1","old":null},"metadata":{"labels":{"team":"shop"},"resourceVersion":"7"}}`,
			}}, 200,
		},
		{
			"a strategic merge patch of a type that is not known is the server's to compute", "PATCH", "application/strategic-merge-patch+json", `{"data":{"a":"1"}}`, label,
			[]step{{method: "GET", path: one, answer: odd}, {
				method: "PATCH", path: one, query: "dryRun=All", body: `{"data":{"a":"1"},"metadata":{"resourceVersion":"7"}}`,
				answer: strings.Replace(odd, `"old"`, `"a":"1","old"`, 1),
			}, {
				method: "PATCH", path: one, contentType: "application/merge-patch+json",
				body: `{"data":{"a":"1"},"metadata":{"labels":{"team":"shop"},"resourceVersion":"7"}}`,
			}}, 200,
		},
		{
			"a strategic merge patch that the server does not take", "PATCH", "application/strategic-merge-patch+json", `{}`, label,
			[]step{{method: "GET", path: one, answer: odd}, {method: "PATCH", path: one, query: "dryRun=All", code: 415, answer: `{"code":415,"message":"no"}`}}, 415,
		},
		{
			"a patch that does not apply is the server's to refuse", "PATCH", "application/json-patch+json", `[{"op":"remove","path":"/data/none"}]`, allow,
			[]step{get7, {method: "PATCH", path: one, body: `[{"op":"remove","path":"/data/none"}]`, code: 422, answer: `{"message":"no"}`}}, 422,
		},
		{
			"a patch of what is not there, and may be there now", "PATCH", "application/merge-patch+json", `{}`, allow,
			[]step{{method: "GET", path: one, code: 404}}, 404,
		},
		{
			"a deletion", "DELETE", "application/json", `{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":3}`, allow,
			[]step{get7, {method: "DELETE", path: one, body: `"gracePeriodSeconds":3,"preconditions":{"uid":"u","resourceVersion":"7"}`}}, 200,
		},
		{
			"a deletion of what is not there, and may be there now", "DELETE", "application/json", "", allow,
			[]step{{method: "GET", path: one, code: 404}}, 404,
		},
		{
			"a deletion with a version of its own", "DELETE", "application/json", `{"preconditions":{"resourceVersion":"6"}}`, allow,
			[]step{get7, {method: "DELETE", path: one, body: `{"preconditions":{"resourceVersion":"6"}}`, code: 409, answer: conflict}}, 409,
		},
		{
			"an update of a subresource that cannot be read is decided by its resource", "PUT", "application/json", put, label,
			[]step{
				{method: "GET", path: one + "/status", code: 403}, get7, {method: "PUT", path: one + "/status", body: `"team":"shop"`},
			}, 200,
		},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			server := serve(t, test.steps...)
			client := wrapped(t, server, test.decide, transport.Options{})
			path := test.steps[len(test.steps)-1].path
			if code, message := do(t, client, test.method, server+path, test.contentType, test.body); code != test.code {
				t.Errorf("code %d (%s), want %d", code, message, test.code)
			}
		})
	}
}

func TestDeletionOfACollection(t *testing.T) {
	t.Parallel()
	page := func(next string, names ...string) string {
		var items []string
		for _, name := range names {
			items = append(items, fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"shop"}}`, name))
		}
		return fmt.Sprintf(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"9","continue":%q},"items":[%s]}`, next, strings.Join(items, ","))
	}
	var seen []string
	decide := func(_ context.Context, r *usher.Request) (usher.Decision, error) {
		old, err := r.OldObject.Tree()
		if err != nil || r.Phase == usher.Mutate {
			return usher.Allowed(), err
		}
		name, _ := old["metadata"].(map[string]any)["name"].(string)
		seen = append(seen, string(r.Operation)+" "+r.Kind.Kind+" "+r.Name+name)
		if name == "kept" {
			return usher.Denied("it is kept"), nil
		}
		return usher.Allowed(), nil
	}
	server := serve(t,
		step{method: "GET", path: many, query: "labelSelector=a%3Db&limit=250", answer: page("more", "a", "b")},
		step{method: "GET", path: many, query: "continue=more", answer: page("", "c")},
		step{method: "DELETE", path: many, query: "labelSelector=a%3Db&resourceVersion=9&resourceVersionMatch=Exact"},
		step{method: "GET", path: many, answer: page("", "d", "kept", "e")},
	)
	client := wrapped(t, server, decide, transport.Options{})
	if code, message := do(t, client, "DELETE", server+many+"?labelSelector=a%3Db", "", ""); code != 200 {
		t.Errorf("code %d: %s", code, message)
	}
	want := []string{"DELETE ConfigMap a", "DELETE ConfigMap b", "DELETE ConfigMap c"}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if code, message := do(t, client, "DELETE", server+many, "", ""); code != 400 || message != `admission webhook "validate.usher.dev" denied the request: it is kept` {
		t.Errorf("code %d: %s", code, message)
	}
}

// TestDeletionOfNoList: nothing is deleted about which nobody has decided.
func TestDeletionOfNoList(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		`{}`, `{"kind":"Status","apiVersion":"v1","status":"Success"}`, `{"kind":"ConfigMapList","apiVersion":"v1","items":{}}`,
		`{"kind":"ConfigMapList","apiVersion":"v1","items":["a"]}`, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}`, `[]`, `null`,
	} {
		server := serve(t, step{method: "GET", path: many, answer: answer})
		client := wrapped(t, server, allow, transport.Options{})
		if code, message := do(t, client, "DELETE", server+many, "", ""); code != 500 {
			t.Errorf("%s: code %d: %s", answer, code, message)
		}
	}
	for _, items := range []string{"[]", "null"} {
		server := serve(t,
			step{method: "GET", path: many, answer: `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":` + items + `}`},
			step{method: "DELETE", path: many, query: "resourceVersion=9&resourceVersionMatch=Exact"},
		)
		client := wrapped(t, server, allow, transport.Options{})
		if code, message := do(t, client, "DELETE", server+many, "", ""); code != 200 {
			t.Errorf("%s: code %d: %s", items, code, message)
		}
	}
}
