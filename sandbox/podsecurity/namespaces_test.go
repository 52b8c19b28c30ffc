package podsecurity

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	psaadmission "k8s.io/pod-security-admission/admission"
	admissionapi "k8s.io/pod-security-admission/admission/api"
	psaapi "k8s.io/pod-security-admission/api"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/object"
)

// TestNamespaces writes namespaces with labels that are right and wrong, in which pods exist: the
// verdict and all warnings are those of the admission plugin.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	const configurations = 10
	var refused, warned, exempt int
	for seed := range uint64(configurations) {
		g, c := newGenerator(7+seed), &cluster{namespace: &corev1.Namespace{}}
		defaults := g.defaults()
		in := oneOf(g, "exempt", namespace, namespace, namespace)
		reference := plugin(t, &admissionapi.PodSecurityConfiguration{
			Defaults: defaults, Exemptions: admissionapi.PodSecurityExemptions{Namespaces: []string{"exempt"}, RuntimeClasses: []string{"kata"}},
		}, c)
		d := decider(t, policies(t, byLabels, configured(defaults)), fact.ResolverFunc(func(ctx context.Context, ref fact.Ref) (any, error) {
			return object.FromTrees(trees(t, c.pods)).Resolve(ctx, ref)
		}))
		for range *requests / configurations / 3 {
			c.pods = g.existing(in)
			want, got := g.compareNamespace(t, reference, d, in)
			if !want.Allowed {
				refused++
			}
			if len(want.Warnings) > 0 {
				warned++
				if strings.Contains(want.Warnings[0], "is exempt from") {
					exempt++
				}
			}
			if diff := cmp.Diff(want.Warnings, got); diff != "" && want.Allowed {
				t.Fatalf("seed %d, defaults %+v: other warnings than those of the plugin (-want +got):\n%s", seed, defaults, diff)
			}
		}
	}
	if refused == 0 || warned == exempt || exempt == 0 {
		t.Errorf("%d are refused, %d warn, %d of an exempt namespace", refused, warned, exempt)
	}
}

// configured sets the params of the policies for labels.
func configured(defaults admissionapi.PodSecurityDefaults) func(spec map[string]any) {
	return func(spec map[string]any) {
		setParam(spec, "defaults", map[string]any{
			"enforce": defaults.Enforce, "enforce-version": defaults.EnforceVersion, "audit": defaults.Audit, "audit-version": defaults.AuditVersion,
			"warn": defaults.Warn, "warn-version": defaults.WarnVersion,
		})
		setParam(spec, "exemptNamespaces", []any{"exempt"})
		setParam(spec, "exemptRuntimeClasses", []any{"kata"})
	}
}

// existing are pods, some of which have a controller in common or a runtime class that is exempt.
func (g *generator) existing(in string) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range g.IntN(6) {
		pod := g.pod()
		if i > 0 && g.IntN(3) == 0 {
			// Alike but for its name.
			pod = pods[g.IntN(i)].DeepCopy()
		}
		pod.Name, pod.Namespace = fmt.Sprintf("%s-%d", oneOf(g, "a", "b", "c"), i), in
		pod.Spec.RuntimeClassName = oneOf(g, nil, nil, nil, new("kata"), new("gvisor"))
		if g.IntN(2) == 0 {
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: types.UID(oneOf(g, "1", "2")), Controller: new(true)}}
		}
		pods = append(pods, pod)
	}
	return pods
}

// trees encodes pods as an API server has them.
func trees(t *testing.T, pods []*corev1.Pod) []map[string]any {
	t.Helper()
	var all []map[string]any
	for _, pod := range pods {
		text, err := json.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		tree, err := usher.RawObject(text).Tree()
		if err != nil {
			t.Fatal(err)
		}
		tree["apiVersion"], tree["kind"] = "v1", "Pod"
		all = append(all, tree)
	}
	return all
}

// compareNamespace writes a namespace, and returns the warnings of both sides.
func (g *generator) compareNamespace(t *testing.T, reference *psaadmission.Admission, d usher.Decider, in string) (*admissionv1.AdmissionResponse, []string) {
	t.Helper()
	now, before := g.namespace(in), g.namespace(in)
	if g.IntN(5) == 0 {
		before = now
	}
	attributes := &psaapi.AttributesRecord{
		Name: in, Namespace: in, Kind: now.kind, Resource: now.resource, Operation: admissionv1.Create, Object: now.object,
	}
	r := &usher.Request{Phase: usher.Validate, Operation: usher.Create, Name: in, Namespace: in, Kind: now.kind, Resource: now.resource, Object: encoded(t, now)}
	if g.IntN(5) > 0 {
		attributes.Operation, attributes.OldObject = admissionv1.Update, before.object
		r.Operation, r.OldObject = usher.Update, encoded(t, before)
	}
	want := reference.Validate(t.Context(), attributes)
	got, err := d.Decide(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if want.Allowed != (got.Verdict == usher.Allow) {
		t.Fatalf("%s %v after %v: allowed is %t for the plugin, and %v here: %s", r.Operation, now.object, before.object, want.Allowed, got.Verdict, got.Message)
	}
	if !want.Allowed {
		for _, cause := range want.Result.Details.Causes {
			if text := fmt.Sprintf("%s: %s", cause.Field, cause.Message); !strings.Contains(got.Message, text) {
				t.Fatalf("the plugin says %q, and Usher %q", text, got.Message)
			}
		}
	}
	var warnings []string
	for _, w := range got.Warnings {
		warnings = append(warnings, strings.TrimSuffix(w, " (ClusterObjectPolicy pod-security-labels-exempt-namespaces)"))
	}
	return want, warnings
}

func (g *generator) namespace(name string) target {
	return target{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: g.labels()}},
		corev1.SchemeGroupVersion.WithKind("Namespace"), corev1.SchemeGroupVersion.WithResource("namespaces"),
	}
}
