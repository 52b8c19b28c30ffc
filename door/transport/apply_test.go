package transport_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/transport"
)

const pod = "/api/v1/namespaces/shop/pods/a"

// result is what a server says an apply leads to: a pod with two containers, of which the
// client applies one, and others the other.
func result(side string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"shop","resourceVersion":"7","managedFields":[
{"manager":"other","fieldsV1":{"f:spec":{"f:containers":{"k:{\"name\":\"side\"}":{".":{},"f:name":{},"f:image":{}}}}}},
{"manager":"test","fieldsV1":{"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{".":{},"f:name":{},"f:image":{}}}}}}]},
"spec":{"nodeName":"n","containers":[{"name":"side","image":%q},{"name":"main","image":"m:1"}]}}`, side)
}

// setSide has another image in the container side.
func setSide(image string) usher.DeciderFunc {
	return func(_ context.Context, r *usher.Request) (usher.Decision, error) {
		tree, err := r.Object.Tree()
		if err != nil || r.Phase != usher.Mutate {
			return usher.Allowed(), err
		}
		containers := tree["spec"].(map[string]any)["containers"].([]any)
		if containers[0].(map[string]any)["image"] == image {
			return usher.Allowed(), nil
		}
		return usher.Patched(usher.PatchOp{Op: "replace", Path: "/spec/containers/0/image", Value: image}), nil
	}
}

// TestApplyCarriesWhatPoliciesChange has a policy change an element of a list of which the
// client does not apply anything.
func TestApplyCarriesWhatPoliciesChange(t *testing.T) {
	t.Parallel()
	const (
		apply = "application/apply-patch+yaml"
		mine  = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"main","image":"m:1"}]}}`
		main  = `{"image":"m:1","name":"main"}`
		both  = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","resourceVersion":"7"},"spec":{"containers":[` + main + `,{"image":"s:2","name":"side"}]}}`
		alone = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","resourceVersion":"7"},"spec":{"containers":[` + main + `]}}`
	)
	get := step{method: "GET", path: pod, answer: result("s:1")}
	try := func(query, body, answer string) step {
		return step{method: "PATCH", path: pod, query: query, body: body, contentType: apply, answer: answer}
	}
	conflict := step{
		method: "PATCH", path: pod, query: "dryRun=All", code: 409,
		answer: `{"kind":"Status","apiVersion":"v1","status":"Failure","code":409,"reason":"Conflict","message":"Apply failed with 1 conflict"}`,
	}
	for _, test := range []struct {
		reason string
		decide usher.DeciderFunc
		steps  []step
		code   int
		says   string
	}{
		{
			"nothing is changed", setSide("s:1"),
			[]step{get, try("dryRun=All&fieldManager=test", alone, result("s:1")), try("fieldManager=test", alone, "")}, 200, "",
		},
		{
			"what is changed is applied as well, by force", setSide("s:2"),
			[]step{
				get, try("dryRun=All&fieldManager=test", alone, result("s:1")),
				try("dryRun=All&fieldManager=test&force=true", both, result("s:2")), try("fieldManager=test&force=true", both, ""),
			}, 200, "",
		},
		{
			"what does not come of it is refused", setSide("s:2"),
			[]step{
				get, try("dryRun=All&fieldManager=test", alone, result("s:1")), try("dryRun=All&fieldManager=test&force=true", both, result("s:1")),
			}, 500, "the policies change more than this apply request can carry",
		},
		{"a conflict with another manager is the client's", setSide("s:2"), []step{get, conflict, get}, 409, "Apply failed with 1 conflict"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			server := serve(t, test.steps...)
			client := wrapped(t, server, test.decide, transport.Options{})
			code, message := do(t, client, "PATCH", server+pod+"?fieldManager=test", apply, mine)
			if code != test.code || !strings.Contains(message, test.says) {
				t.Errorf("code %d: %s, want %d %s", code, message, test.code, test.says)
			}
		})
	}
}
