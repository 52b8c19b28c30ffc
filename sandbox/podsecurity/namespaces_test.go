package podsecurity

import (
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	admissionapi "k8s.io/pod-security-admission/admission/api"
	psaapi "k8s.io/pod-security-admission/api"

	usher "github.com/usher-dev/usher"
)

// TestNamespaces writes namespaces with labels that are right and wrong.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	g, c := newGenerator(7), &cluster{namespace: &corev1.Namespace{}}
	configuration := &admissionapi.PodSecurityConfiguration{Defaults: admissionapi.PodSecurityDefaults{
		Enforce: "privileged", EnforceVersion: "latest", Audit: "privileged", AuditVersion: "latest", Warn: "privileged", WarnVersion: "latest",
	}}
	reference, d := plugin(t, configuration, c), decider(t, policies(t, byLabels, func(map[string]any) {}), labelled(nil))
	refused := 0
	for range *requests {
		now, before := g.namespace(), g.namespace()
		if g.IntN(3) == 0 {
			before = now
		}
		attributes := &psaapi.AttributesRecord{
			Name: namespace, Namespace: namespace, Kind: now.kind, Resource: now.resource, Operation: admissionv1.Create, Object: now.object,
		}
		r := &usher.Request{Phase: usher.Validate, Operation: usher.Create, Name: namespace, Namespace: namespace, Kind: now.kind, Resource: now.resource, Object: encoded(t, now)}
		if g.IntN(2) == 0 {
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
		if want.Allowed {
			continue
		}
		refused++
		for _, cause := range want.Result.Details.Causes {
			if text := fmt.Sprintf("%s: %s", cause.Field, cause.Message); !strings.Contains(got.Message, text) {
				t.Fatalf("the plugin says %q, and Usher %q", text, got.Message)
			}
		}
	}
	if refused == 0 || refused == *requests {
		t.Errorf("%d of %d are refused", refused, *requests)
	}
}

func (g *generator) namespace() target {
	return target{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: g.labels()}},
		corev1.SchemeGroupVersion.WithKind("Namespace"), corev1.SchemeGroupVersion.WithResource("namespaces"),
	}
}
