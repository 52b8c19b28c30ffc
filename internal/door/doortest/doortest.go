// Package doortest tests the behaviour of doors for admission, which is the same for every
// protocol: the same request gets the same decision. A door runs the suite in its own tests:
//
//	doortest.Run(t, func(t *testing.T, d usher.Decider) doortest.Door { … })
package doortest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
)

// A Door sends a request to the decider behind it as its callers do, and returns the response as
// they see it. It is safe for concurrent use.
type Door interface {
	// Send sends r, whose phase is Mutate or Validate, through the door. UID and Options of r may
	// differ on arrival.
	Send(t *testing.T, r *usher.Request) Answer
}

// An Answer is the response that the caller of a [Door] gets.
type Answer struct {
	// Verdict is Allow or Deny.
	Verdict usher.Verdict
	// Code, Reason and Message are those of a denial. The protocol may add text around the message.
	Code    int32
	Reason  string
	Message string
	// Object is the resulting object: the object as it was sent, with the patch applied. It is nil
	// on Delete.
	Object   map[string]any
	Warnings []string
	// Audit are the annotations for the audit log, with the keys that they have there; nil if the
	// protocol has none. Only [Cases] compares them.
	Audit map[string]string
}

// Run tests the doors that open returns, each in front of a decider.
func Run(t *testing.T, open func(t *testing.T, d usher.Decider) Door) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(t *testing.T, open func(t *testing.T, d usher.Decider) Door)
	}{
		{"the decider sees what was sent", seesWhatWasSent},
		{"the decision is what the caller gets", getsTheDecision},
		{"a patch changes the object of a mutating request only", patches},
		{"without a decision the request is denied", undecided},
		{"warnings arrive in a form that can be shown", warnings},
		{"a decision has a deadline", deadline},
		{"a policy that never ends is answered for at the deadline", neverEnds},
		{"requests at the same time do not mix", concurrency},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, open)
		})
	}
}

// phases are the phases of admission doors.
func phases() []usher.Phase { return []usher.Phase{usher.Mutate, usher.Validate} }

// configMap returns an object with numbers that are easy to corrupt.
func configMap(name string) map[string]any {
	return map[string]any{
		"apiVersion": "v1",
		"kind":       "ConfigMap",
		"metadata":   map[string]any{"name": name, "namespace": "shop", "labels": map[string]any{"app": "<&>é\u2028"}},
		"data":       map[string]any{"key": "value\n"},
		"numbers":    []any{int64(9007199254740993), 0.25, int64(-1)},
		"nothing":    nil,
	}
}

// request returns a request for such an object.
func request(phase usher.Phase, operation usher.Operation) *usher.Request {
	r := &usher.Request{
		UID:       "5b8aeba9-d75c-4296-9469-81ab0953579a",
		Phase:     phase,
		Operation: operation,
		Kind:      schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
		Resource:  schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		Name:      "site",
		Namespace: "shop",
		User: usher.User{
			Name: "jane", UID: "7", Groups: []string{"devs", "system:authenticated"},
			Extra: map[string][]string{"example.com/team": {"shop", "web"}},
		},
	}
	if operation != usher.Delete {
		r.Object = usher.TreeObject(configMap("site"))
	}
	if operation == usher.Update || operation == usher.Delete {
		old := configMap("site")
		old["data"] = map[string]any{"key": "old"}
		r.OldObject = usher.TreeObject(old)
	}
	return r
}

// connect returns a request to run something in a pod.
func connect(phase usher.Phase) *usher.Request {
	r := request(phase, usher.Connect)
	r.Kind = schema.GroupVersionKind{Version: "v1", Kind: "PodExecOptions"}
	r.Resource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	r.Subresource = "exec"
	r.Object = usher.TreeObject(map[string]any{
		"apiVersion": "v1", "kind": "PodExecOptions", "container": "main", "command": []any{"sh"},
	})
	return r
}

func seesWhatWasSent(t *testing.T, open func(t *testing.T, d usher.Decider) Door) {
	for _, phase := range phases() {
		dry := request(phase, usher.Create)
		dry.DryRun = true
		sent := []*usher.Request{
			request(phase, usher.Create), request(phase, usher.Update), request(phase, usher.Delete), connect(phase), dry,
		}
		for _, r := range sent {
			var seen *usher.Request
			door := open(t, usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
				seen = r
				return usher.Allowed(), nil
			}))
			answer := door.Send(t, r)
			if seen == nil {
				t.Errorf("%s %s: the decider was not asked", phase, r.Operation)
				continue
			}
			if seen.UID == "" {
				t.Errorf("%s %s: the request has no UID", phase, r.Operation)
			}
			if diff := cmp.Diff(plain(t, r), plain(t, seen)); diff != "" {
				t.Errorf("%s %s: -sent +seen:\n%s", phase, r.Operation, diff)
			}
			if diff := cmp.Diff(tree(t, r.Object), answer.Object); diff != "" {
				t.Errorf("%s %s: the object has changed on its way: -sent +got:\n%s", phase, r.Operation, diff)
			}
		}
	}
}

// plain is a request in a form that can be compared.
func plain(t *testing.T, r *usher.Request) map[string]any {
	t.Helper()
	return map[string]any{
		"phase": r.Phase, "operation": r.Operation, "kind": r.Kind, "resource": r.Resource, "subresource": r.Subresource,
		"name": r.Name, "namespace": r.Namespace, "user": r.User, "dryRun": r.DryRun,
		"object": tree(t, r.Object), "oldObject": tree(t, r.OldObject),
	}
}

func tree(t *testing.T, o *usher.Object) map[string]any {
	t.Helper()
	tree, err := o.Tree()
	if err != nil {
		t.Errorf("decode object: %v", err)
	}
	return tree
}

func getsTheDecision(t *testing.T, open func(t *testing.T, d usher.Decider) Door) {
	tests := []struct {
		reason   string
		decision usher.Decision
		want     Answer
	}{
		{"what is allowed passes", usher.Allowed(), Answer{Verdict: usher.Allow}},
		{"no opinion lets pass", usher.Decision{}, Answer{Verdict: usher.Allow}},
		{
			"a denial without a code is a bad request",
			usher.Denied("label %s is required", "team"),
			Answer{Verdict: usher.Deny, Code: 400, Message: "label team is required"},
		},
		{
			"a denial has the code and reason that it was given",
			usher.Decision{Verdict: usher.Deny, Code: 403, Reason: "Forbidden", Message: "not\nyou"},
			Answer{Verdict: usher.Deny, Code: 403, Reason: "Forbidden", Message: "not\nyou"},
		},
		{
			"a decision that is none is not taken for consent",
			usher.Decision{Verdict: "perhaps"},
			Answer{Verdict: usher.Deny, Code: 500, Reason: "InternalError", Message: "no decision was reached"},
		},
	}
	for _, test := range tests {
		door := open(t, usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
			return test.decision, nil
		}))
		for _, phase := range phases() {
			for _, operation := range []usher.Operation{usher.Create, usher.Update, usher.Delete} {
				got := door.Send(t, request(phase, operation))
				if got.Verdict != test.want.Verdict {
					t.Errorf("%s: %s %s: verdict %q, want %q", test.reason, phase, operation, got.Verdict, test.want.Verdict)
				}
				if test.want.Verdict == usher.Deny {
					checkDenial(t, fmt.Sprintf("%s: %s %s", test.reason, phase, operation), test.want, got)
				}
			}
		}
	}
}

func checkDenial(t *testing.T, where string, want, got Answer) {
	t.Helper()
	if got.Verdict != usher.Deny || got.Code != want.Code || got.Reason != want.Reason || !strings.Contains(got.Message, want.Message) {
		t.Errorf("%s: got %s, code %d, reason %q, message %q; want code %d, reason %q, message %q",
			where, got.Verdict, got.Code, got.Reason, got.Message, want.Code, want.Reason, want.Message)
	}
}

func patches(t *testing.T, open func(t *testing.T, d usher.Decider) Door) {
	patch := usher.Patch{
		{Op: "add", Path: "/metadata/labels/a~1b", Value: "c"},
		{Op: "replace", Path: "/numbers/0", Value: int64(9007199254740995)},
		{Op: "remove", Path: "/data"},
		{Op: "add", Path: "/nothing", Value: nil},
		{Op: "add", Path: "/tree", Value: map[string]any{"list": []any{1.5, true}}},
	}
	changed := configMap("site")
	changed["metadata"].(map[string]any)["labels"].(map[string]any)["a/b"] = "c"
	changed["numbers"].([]any)[0] = int64(9007199254740995)
	delete(changed, "data")
	changed["tree"] = map[string]any{"list": []any{1.5, true}}

	denied := usher.Decision{Verdict: usher.Deny, Code: 403, Patch: patch}
	tests := []struct {
		reason    string
		phase     usher.Phase
		operation usher.Operation
		decision  usher.Decision
		verdict   usher.Verdict
		want      map[string]any
	}{
		{"a new object is changed", usher.Mutate, usher.Create, usher.Patched(patch...), usher.Allow, changed},
		{"a changed object is changed again", usher.Mutate, usher.Update, usher.Patched(patch...), usher.Allow, changed},
		{"an empty patch changes nothing", usher.Mutate, usher.Create, usher.Patched(), usher.Allow, configMap("site")},
		{"what is denied is not changed", usher.Mutate, usher.Create, denied, usher.Deny, configMap("site")},
		{"nothing is left to change of what goes", usher.Mutate, usher.Delete, usher.Patched(patch...), usher.Allow, nil},
		{"validation changes nothing", usher.Validate, usher.Create, usher.Patched(patch...), usher.Allow, configMap("site")},
	}
	for _, test := range tests {
		door := open(t, usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
			return test.decision, nil
		}))
		got := door.Send(t, request(test.phase, test.operation))
		if got.Verdict != test.verdict {
			t.Errorf("%s: verdict %q (%s), want %q", test.reason, got.Verdict, got.Message, test.verdict)
		}
		if diff := cmp.Diff(test.want, got.Object); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.reason, diff)
		}
	}
}

func undecided(t *testing.T, open func(t *testing.T, d usher.Decider) Door) {
	const word = "unlucky"
	door := open(t, usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
		switch r.Operation {
		case usher.Create:
			return usher.Allowed(), errors.New(word)
		case usher.Update:
			panic(word)
		default:
			return usher.Allowed(), nil
		}
	}))
	for _, phase := range phases() {
		want := Answer{Code: 500, Reason: "InternalError", Message: "no decision was reached"}
		checkDenial(t, "an error", want, door.Send(t, request(phase, usher.Create)))
		got := door.Send(t, request(phase, usher.Update))
		checkDenial(t, "a panic", want, got)
		if strings.Contains(got.Message, word) {
			t.Errorf("the caller is told what only the log should know: %s", got.Message)
		}
		if got := door.Send(t, request(phase, usher.Delete)); got.Verdict != usher.Allow {
			t.Errorf("after a panic nothing is decided any more: %s", got.Message)
		}
	}
}

func warnings(t *testing.T, open func(t *testing.T, d usher.Decider) Door) {
	said := []string{"one", "two\nlines", "", "one", " \t ", "not \xff UTF-8", "é"}
	want := []string{"one", "two lines", "not \ufffd UTF-8", "é"}
	for _, verdict := range []usher.Verdict{usher.Allow, usher.Deny} {
		door := open(t, usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
			return usher.Decision{Verdict: verdict, Warnings: said}, nil
		}))
		for _, phase := range phases() {
			if diff := cmp.Diff(want, door.Send(t, request(phase, usher.Create)).Warnings); diff != "" {
				t.Errorf("%s %s: -want +got:\n%s", phase, verdict, diff)
			}
		}
	}
}

func deadline(t *testing.T, open func(t *testing.T, d usher.Decider) Door) {
	door := open(t, usher.DeciderFunc(func(ctx context.Context, _ *usher.Request) (usher.Decision, error) {
		if _, ok := ctx.Deadline(); !ok {
			return usher.Denied("no deadline"), nil
		}
		return usher.Allowed(), nil
	}))
	for _, phase := range phases() {
		if got := door.Send(t, request(phase, usher.Create)); got.Verdict != usher.Allow {
			t.Errorf("%s: %s", phase, got.Message)
		}
	}
}

func concurrency(t *testing.T, open func(t *testing.T, d usher.Decider) Door) {
	door := open(t, usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
		object, err := r.Object.Tree()
		if err != nil {
			return usher.Decision{}, err
		}
		return usher.Patched(usher.PatchOp{Op: "add", Path: "/data/name", Value: object["metadata"].(map[string]any)["name"]}), nil
	}))
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			name := fmt.Sprintf("site-%d", i)
			r := request(usher.Mutate, usher.Create)
			r.Name, r.Object = name, usher.TreeObject(configMap(name))
			data, _ := door.Send(t, r).Object["data"].(map[string]any)
			if data["name"] != name {
				t.Errorf("%s got the answer of %v", name, data["name"])
			}
		})
	}
	all.Wait()
}
