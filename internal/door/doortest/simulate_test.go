package doortest_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	preserving "sigs.k8s.io/json"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/door/doortest"
	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/simulate"
)

// TestCorpusThroughChain sends the cases through the admission chain of an API server, in
// which a webhook of Usher is asked about everything.
func TestCorpusThroughChain(t *testing.T) {
	// What the chain logs is not of interest; this is for the whole process.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	cases := loadCorpus(t)
	cluster, err := simulate.FromObjects(clusterOf(t, cases))
	if err != nil {
		t.Fatal(err)
	}
	simulator, err := simulate.New(t.Context(), cluster, simulate.Options{Local: simulate.AnsweredBy(usher.DeciderFunc(decideAsked))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(simulator.Close)
	options := doortest.CaseOptions{
		Rewritten: true,
		Stored:    stored,
		DeniedBy:  func(phase usher.Phase) string { return `admission webhook "` + string(phase) + `.usher.dev"` },
		AuditKey:  func(phase usher.Phase, key string) string { return string(phase) + ".usher.dev/" + key },
		Unsent:    func(r *usher.Request) string { return unsent(t.Context(), simulator, r) },
	}
	n := doortest.Cases(t, cases, options, func(_ *testing.T, d usher.Decider) doortest.Door { return &chainDoor{simulator, d} })
	sent(t, n, 900)
}

type askedKey struct{}

// An asked is a decider, and the only phase that it is asked about.
type asked struct {
	decider usher.Decider
	phase   usher.Phase
}

// decideAsked asks the decider that the request has brought along.
func decideAsked(ctx context.Context, r *usher.Request) (usher.Decision, error) {
	a := ctx.Value(askedKey{}).(asked)
	if r.Phase != a.phase {
		return usher.Allowed(), nil
	}
	return a.decider.Decide(ctx, r)
}

// A chainDoor is the chain, with a decider behind its webhooks.
type chainDoor struct {
	simulator *simulate.Simulator
	decider   usher.Decider
}

func (d *chainDoor) run(ctx context.Context, r *usher.Request) (*simulate.Trace, error) {
	object, err := r.Object.Tree()
	if err != nil {
		return nil, err
	}
	old, err := r.OldObject.Tree()
	if err != nil {
		return nil, err
	}
	options, err := r.Options.Tree()
	if err != nil {
		return nil, err
	}
	return d.simulator.Run(context.WithValue(ctx, askedKey{}, asked{d.decider, r.Phase}), simulate.Request{
		Operation: r.Operation, Object: object, OldObject: old, Resource: r.Resource.GroupResource().String(), Subresource: r.Subresource,
		Name: r.Name, Namespace: r.Namespace, User: r.User, DryRun: r.DryRun, Options: options,
	})
}

// unsent says why an API server does not take a request, whatever its webhooks say, or does not ask
// them.
func unsent(ctx context.Context, simulator *simulate.Simulator, r *usher.Request) string {
	asked := false
	d := &chainDoor{simulator, usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
		asked = true
		return usher.Allowed(), nil
	})}
	trace, err := d.run(ctx, r)
	switch {
	case err != nil:
		return err.Error()
	case !trace.Admitted:
		return trace.Error.Message
	case !asked:
		return "API servers ask no webhook about it"
	}
	return ""
}

func (d *chainDoor) Send(t *testing.T, r *usher.Request) doortest.Answer {
	t.Helper()
	trace, err := d.run(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	answer := doortest.Answer{Verdict: usher.Allow, Warnings: trace.Warnings, Object: trace.Result, Audit: annotations(trace, r.Phase)}
	if !trace.Admitted {
		deny(&answer, trace.Error)
	}
	// The API server warns of what it does not know; policies have nothing to do with that.
	answer.Warnings = slices.DeleteFunc(answer.Warnings, func(text string) bool { return strings.HasPrefix(text, "unknown field ") })
	if r.Operation == usher.Delete {
		answer.Object = nil
	}
	return answer
}

// annotations are those of the webhook for a phase.
func annotations(trace *simulate.Trace, phase usher.Phase) map[string]string {
	all := maps.Clone(trace.Audit)
	maps.DeleteFunc(all, func(key, _ string) bool { return !strings.HasPrefix(key, string(phase)+".usher.dev/") })
	return all
}

// stored is an object as an API server has it, without what only it can know.
func stored(tree map[string]any) (map[string]any, bool) {
	raw, err := json.Marshal(tree)
	if err != nil {
		return nil, false
	}
	if object, _, err := scheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil); err == nil {
		if raw, err = json.Marshal(object); err != nil {
			return nil, false
		}
	} else if known(tree) {
		return nil, false
	}
	var result map[string]any
	if preserving.UnmarshalCaseSensitivePreserveInts(raw, &result) != nil {
		return nil, false
	}
	object := unstructured.Unstructured{Object: result}
	for _, field := range []string{"uid", "creationTimestamp", "generation", "resourceVersion", "deletionTimestamp"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	if object.GetName() == object.GetGenerateName()+"xxxxx" {
		unstructured.RemoveNestedField(object.Object, "metadata", "name")
	}
	return result, true
}

// known reports whether an API server has a type for an object.
func known(tree map[string]any) bool {
	object := unstructured.Unstructured{Object: tree}
	return scheme.Scheme.Recognizes(object.GroupVersionKind())
}

// clusterOf is a cluster for the cases: their namespaces, their kinds, and the webhooks.
func clusterOf(t *testing.T, cases []*policytest.Case) []map[string]any {
	t.Helper()
	objects := []map[string]any{webhookFor("MutatingWebhookConfiguration", "mutate"), webhookFor("ValidatingWebhookConfiguration", "validate")}
	have := map[string]bool{}
	add := func(object map[string]any) {
		u := unstructured.Unstructured{Object: object}
		if key := u.GetKind() + "/" + u.GetName(); !have[key] {
			have[key] = true
			objects = append(objects, object)
		}
	}
	for _, c := range cases {
		r, err := c.Request.For(c.Phase)
		if err != nil {
			t.Fatal(err)
		}
		if r.Namespace != "" {
			add(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": r.Namespace}})
		}
		if !scheme.Scheme.Recognizes(r.Kind) && strings.Contains(r.Kind.Group, ".") {
			add(kindFor(r))
		}
	}
	return objects
}

func webhookFor(kind, phase string) map[string]any {
	return map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": map[string]any{"name": "usher"},
		"webhooks": []any{map[string]any{
			"name": phase + ".usher.dev", "sideEffects": "None", "admissionReviewVersions": []any{"v1"}, "timeoutSeconds": int64(30),
			"clientConfig": map[string]any{"service": map[string]any{"namespace": "usher-system", "name": "usher", "path": "/" + phase}},
			"rules": []any{map[string]any{
				"operations": []any{"*"}, "apiGroups": []any{"*"}, "apiVersions": []any{"*"}, "resources": []any{"*/*"},
			}},
		}},
	}
}

// kindFor defines the kind of a request.
func kindFor(r *usher.Request) map[string]any {
	scope := "Cluster"
	if r.Namespace != "" {
		scope = "Namespaced"
	}
	anything := map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": r.Resource.Resource + "." + r.Kind.Group},
		"spec": map[string]any{
			"group": r.Kind.Group, "scope": scope, "names": map[string]any{"plural": r.Resource.Resource, "kind": r.Kind.Kind},
			"versions": []any{map[string]any{"name": r.Kind.Version, "served": true, "storage": true, "schema": anything}},
		},
	}
}
