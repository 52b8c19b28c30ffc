package podsecurity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	admissionapi "k8s.io/pod-security-admission/admission/api"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/object"
)

const (
	ofNamespaces = "TestValidateNamespace"
	ofOrder      = "TestPrioritizePods"
	ofWarnings   = "TestExemptNamespaceWarning"
)

// A namespaceQuestion is about a namespace and its pods.
type namespaceQuestion struct {
	Ask               string
	Defaults          admissionapi.PodSecurityDefaults
	Exemptions        admissionapi.PodSecurityExemptions
	Operation         usher.Operation
	Name              string
	Object, OldObject map[string]any
	Listed            bool
	Pods              []*corev1.Pod
	ListError         string
	Most              int
}

// A namespaceAnswer is what the policies say, or that they need the pods.
type namespaceAnswer struct {
	Allowed  bool
	Message  string
	Warnings []string
	Lists    bool
	Order    []int
}

// wrong is an answer that no row may take.
func (a *namespaceAnswer) wrong() namespaceAnswer {
	w := namespaceAnswer{Allowed: !a.Allowed, Message: "wrong", Lists: a.Lists}
	if len(a.Warnings) == 0 {
		w.Warnings = []string{"wrong"}
	}
	for i := range a.Order {
		w.Order = append(w.Order, i)
	}
	return w
}

func (q *namespaceQuestion) answer(t *testing.T) namespaceAnswer {
	t.Helper()
	if q.Ask == "prioritize" {
		return namespaceAnswer{Order: q.order(t)}
	}
	var a namespaceAnswer
	facts := fact.ResolverFunc(func(ctx context.Context, ref fact.Ref) (any, error) {
		switch {
		case !q.Listed:
			a.Lists = true
			return nil, errors.New("the pods have not been listed")
		case q.ListError != "":
			return nil, errors.New(q.ListError)
		}
		of := *ref.(*fact.Object)
		of.Sample = &fact.Sample{Most: q.Most, Paths: of.Sample.Paths}
		return object.FromTrees(q.trees(t)).Resolve(ctx, &of)
	})
	set := configured(q.Defaults)
	d := decider(t, policies(t, byLabels, func(spec map[string]any) {
		set(spec)
		setParam(spec, "exemptNamespaces", list(q.Exemptions.Namespaces))
		setParam(spec, "exemptRuntimeClasses", list(q.Exemptions.RuntimeClasses))
		if existing, ok := spec["existingObjects"].(map[string]any); ok {
			// In place of checks, the tests of Kubernetes have an annotation.
			spec["validations"] = []any{map[string]any{"expression": "!('error' in object.metadata.?annotations.orValue({}))"}}
			existing["objectMessageExpression"] = "string(object.metadata.annotations['error'])"
		}
	}), facts)
	r := &usher.Request{Phase: usher.Validate, Operation: q.Operation, Name: q.Name, Namespace: q.Name}
	r.Kind, r.Resource = corev1.SchemeGroupVersion.WithKind("Namespace"), corev1.SchemeGroupVersion.WithResource("namespaces")
	sent := &requestQuestion{Kind: r.Kind}
	r.Object, r.OldObject = sent.sent(t, q.Object), sent.sent(t, q.OldObject)
	got, err := d.Decide(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	a.Allowed, a.Message = got.Verdict == usher.Allow, got.Message
	for _, w := range got.Warnings {
		a.Warnings = append(a.Warnings, strings.TrimSuffix(w, " (ClusterObjectPolicy pod-security-labels-exempt-namespaces)"))
	}
	return a
}

// trees encodes the pods as an API server has them: with containers, and in the namespace.
func (q *namespaceQuestion) trees(t *testing.T) []map[string]any {
	t.Helper()
	all := trees(t, q.Pods)
	for _, tree := range all {
		if err := unstructured.SetNestedSlice(tree, []any{}, "spec", "containers"); err != nil {
			t.Fatal(err)
		}
		if err := unstructured.SetNestedField(tree, q.Name, "metadata", "namespace"); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// order returns the indexes of the pods in the order in which they are validated.
func (q *namespaceQuestion) order(t *testing.T) []int {
	t.Helper()
	s := fact.NewSampler(&fact.Sample{Most: len(q.Pods)})
	for i, tree := range trees(t, q.Pods) {
		if err := unstructured.SetNestedField(tree, strconv.Itoa(i), "metadata", "name"); err != nil {
			t.Fatal(err)
		}
		s.Add(fact.Item{Decoded: tree}, tree)
	}
	var order []int
	for _, item := range s.Sampled(0).Objects {
		name, _, _ := unstructured.NestedString(item.Decoded, "metadata", "name")
		index, err := strconv.Atoi(name)
		if err != nil {
			t.Fatal(err)
		}
		order = append(order, index)
	}
	return order
}

// namespaceQuestionOf returns the question if it is about a namespace.
func namespaceQuestionOf(t *testing.T, question []byte) *namespaceQuestion {
	t.Helper()
	q := &namespaceQuestion{}
	if err := json.Unmarshal(question, q); err != nil {
		t.Fatal(fmt.Errorf("read question: %w", err))
	}
	if q.Ask == "" {
		return nil
	}
	return q
}
