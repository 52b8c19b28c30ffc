package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/usher-dev/usher/sandbox"
	"github.com/usher-dev/usher/sandbox/internal/usher"
)

// marking is a policy that labels objects of a kind in one version, or every object.
func marking(t *testing.T, label, selector string) *unstructured.Unstructured {
	t.Helper()
	return parse(t, `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterOverridePolicy
metadata: {name: mark-%[1]s, labels: {app: mark}}
spec:
  resourceSelectors: [%[2]s]
  overrideRules:
  - targetOperations: [CREATE, UPDATE]
    overriders:
      plaintext:
      - {path: /metadata/labels/%[1]s, op: add, value: "yes"}
`, label, selector)
}

// TestPoliciesForSeveralVersions has policies that name different versions of a kind, and one
// that names nothing, act on requests in every version, in whatever order they are added.
func TestPoliciesForSeveralVersions(t *testing.T) {
	t.Parallel()
	r := newRig(t, sandbox.Options{Exclusive: true})
	r.create(t, parse(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
  scope: Namespaced
  conversion: {strategy: None}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`))
	process := r.serve(t)
	namespace := r.Namespace(t)
	object := func(apiVersion, kind string) *unstructured.Unstructured {
		spec := "{}"
		if kind == "HorizontalPodAutoscaler" {
			spec = "{maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}"
		}
		return parse(t, `
apiVersion: %s
kind: %s
metadata: {name: tried, namespace: %q, labels: {app: web}}
spec: %s
`, apiVersion, kind, namespace, spec)
	}
	for _, kind := range []struct{ group, name string }{{"autoscaling", "HorizontalPodAutoscaler"}, {"example.com", "Widget"}} {
		one, two := kind.group+"/v1", kind.group+"/v2"
		policies := []*unstructured.Unstructured{
			marking(t, "one", fmt.Sprintf("{apiVersion: %s, kind: %s}", one, kind.name)),
			marking(t, "two", fmt.Sprintf("{apiVersion: %s, kind: %s}", two, kind.name)),
			marking(t, "every", ""),
		}
		for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
			var added []*unstructured.Unstructured
			want := map[string]string{"app": "web"}
			for _, i := range order {
				applied, err := r.apply(testContext(t), policies[i])
				if err != nil {
					t.Fatal(err)
				}
				r.awaitCondition(t, applied, "Enforced", "True")
				added = append(added, applied)
				want[strings.TrimPrefix(policies[i].GetName(), "mark-")] = "yes"
				for _, apiVersion := range []string{one, two} {
					eventually(t, fmt.Sprintf("%v of order %v on %s %s", want, order, apiVersion, kind.name), func() error {
						created, err := r.try(testContext(t), object(apiVersion, kind.name))
						if err != nil {
							return err
						}
						if got := created.GetLabels(); fmt.Sprint(got) != fmt.Sprint(want) {
							return fmt.Errorf("labels are %v, want %v", got, want)
						}
						return nil
					})
				}
			}
			for _, policy := range added {
				r.remove(policy)
			}
			eventually(t, "the policies to go", func() error {
				for _, apiVersion := range []string{one, two} {
					created, err := r.try(testContext(t), object(apiVersion, kind.name))
					if err != nil {
						return err
					}
					if len(created.GetLabels()) != 1 {
						return fmt.Errorf("labels are %v", created.GetLabels())
					}
				}
				return nil
			})
		}
	}
	// Each acted once.
	applied := make([]*unstructured.Unstructured, 3)
	for i, policy := range []*unstructured.Unstructured{
		marking(t, "one", "{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler}"),
		marking(t, "two", "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler}"),
		marking(t, "every", ""),
	} {
		applied[i] = r.enforce(t, policy)
	}
	count := func(name string) float64 {
		return metric(t, process, fmt.Sprintf(`usher_policy_evaluations_total{policy_kind="ClusterOverridePolicy",policy_name=%q,policy_namespace=""}`, name))
	}
	before := map[string]float64{}
	for _, policy := range applied {
		before[policy.GetName()] = count(policy.GetName())
	}
	decided := sum(t, process, "usher_decisions_total{", `phase="mutate"`)
	if _, err := r.try(testContext(t), object("autoscaling/v1", "HorizontalPodAutoscaler")); err != nil {
		t.Fatal(err)
	}
	for name, n := range before {
		if got := count(name) - max(n, 0); got != 1 {
			t.Errorf("%s ran %v times for one request", name, got)
		}
	}
	if got := sum(t, process, "usher_decisions_total{", `phase="mutate"`) - decided; got != 1 {
		t.Errorf("one request counts as %v decisions", got)
	}
	// What is served in one version is sent once, whatever policies there are.
	asked := sum(t, process, "usher_entry_calls_total{", `entry="mutate`)
	if _, err := r.try(testContext(t), configMap(t, namespace, "tried")); err != nil {
		t.Fatal(err)
	}
	if got := sum(t, process, "usher_entry_calls_total{", `entry="mutate`) - asked; got != 1 {
		t.Errorf("a ConfigMap was sent %v times", got)
	}
}

// sum adds up the series of a metric whose labels contain a text.
func sum(t *testing.T, process *usher.Process, metric, labels string) float64 {
	t.Helper()
	request, err := http.NewRequestWithContext(testContext(t), http.MethodGet, process.Metrics, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatalf("read metrics: %v", err)
	}
	defer response.Body.Close()
	total := 0.0
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		line := lines.Text()
		if !strings.HasPrefix(line, metric) || !strings.Contains(line, labels) {
			continue
		}
		value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			t.Fatalf("read metric %s: %v", line, err)
		}
		total += value
	}
	return total
}

// TestMetadataThroughSubresources attacks metadata that a policy guards through status and
// finalize, and has kubelets and controllers report, which nobody is asked about.
func TestMetadataThroughSubresources(t *testing.T) {
	t.Parallel()
	r := newRig(t, sandbox.Options{Exclusive: true})
	process := r.serve(t)
	namespace := r.Namespace(t)
	r.enforce(t, parse(t, `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterValidatePolicy
metadata: {name: guarded}
spec:
  resourceSelectors:
  - {apiVersion: v1, kind: Pod}
  - {apiVersion: v1, kind: Namespace}
  - {apiVersion: v1, kind: Service}
  - {apiVersion: v1, kind: Node}
  validateRules:
  - targetOperations: [UPDATE]
    cue: |
      object:    _ @tag(object)
      oldObject: _ @tag(oldObject)
      before: *oldObject.metadata.labels.guarded | ""
      now:    *object.metadata.labels.guarded | ""
      load:   *object.metadata.annotations.balancer | ""
      validate: {
          valid:  before == now && load == ""
          reason: "guarded stays as it is"
      }
`))
	labelled := parse(t, "{apiVersion: v1, kind: Namespace, metadata: {name: %q, labels: {guarded: \"1\"}}}", namespace+"-guarded")
	victim := r.create(t, labelled)
	guarded := pod(t, namespace, "guarded")
	guarded.SetLabels(map[string]string{"guarded": "1"})
	running := r.create(t, guarded)
	service := r.create(t, parse(t, `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: %q}
spec: {ports: [{port: 80}], selector: {app: web}}
`, namespace))
	node := r.create(t, parse(t, "{apiVersion: v1, kind: Node, metadata: {name: worker}}"))

	attacks := []struct {
		reason      string
		object      *unstructured.Unstructured
		subresource string
		change      func(*unstructured.Unstructured)
	}{
		{"a label removed through namespaces/status", victim, "status", unlabel},
		{"a label removed through namespaces/finalize", victim, "finalize", unlabel},
		{"a label removed through pods/status", running, "status", unlabel},
		{"an annotation added through services/status", service, "status", func(o *unstructured.Unstructured) {
			o.SetAnnotations(map[string]string{"balancer": "mine"})
		}},
	}
	for _, attack := range attacks {
		eventually(t, attack.reason, func() error {
			return wantDenied(r.beside(testContext(t), attack.object, attack.subresource, attack.change), "guarded stays as it is")
		})
	}
	// What is reported is not sent.
	before := sum(t, process, "usher_entry_calls_total{", `entry=`)
	for i := range 20 {
		report := func(o *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(o.Object, fmt.Sprint("report ", i), "status", "message")
		}
		condition := func(o *unstructured.Unstructured) {
			_ = unstructured.SetNestedSlice(o.Object, []any{map[string]any{"type": "Ready", "status": "True", "reason": fmt.Sprint("Report", i)}}, "status", "conditions")
		}
		for _, reported := range []struct {
			object *unstructured.Unstructured
			change func(*unstructured.Unstructured)
		}{{running, report}, {node, condition}, {service, condition}} {
			if err := r.beside(testContext(t), reported.object, "status", reported.change); err != nil {
				t.Fatalf("report %s: %v", reported.object.GetKind(), err)
			}
		}
	}
	if got := sum(t, process, "usher_entry_calls_total{", `entry=`) - before; got != 0 {
		t.Errorf("60 reports of kubelets and controllers were sent %v times", got)
	}
	// Even if a policy selects nothing, and so everything.
	r.enforce(t, parse(t, `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterOverridePolicy
metadata: {name: team}
spec:
  overrideRules:
  - targetOperations: [UPDATE]
    overriders:
      plaintext: [{path: /metadata/labels/team, op: add, value: shop}]
`))
	eventually(t, "a mutating policy to put back what pods/status removes", func() error {
		err := r.beside(testContext(t), running, "status", func(o *unstructured.Unstructured) {
			o.SetLabels(map[string]string{"guarded": "1", "team": "mine"})
		})
		if err != nil {
			return err
		}
		now, err := r.kube.CoreV1().Pods(namespace).Get(testContext(t), "guarded", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if now.Labels["team"] != "shop" {
			return fmt.Errorf("labels are %v", now.Labels)
		}
		return nil
	})
	before = sum(t, process, "usher_entry_calls_total{", `entry=`)
	for i := range 20 {
		err := r.beside(testContext(t), running, "status", func(o *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(o.Object, fmt.Sprint("again ", i), "status", "message")
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := sum(t, process, "usher_entry_calls_total{", `entry=`) - before; got != 0 {
		t.Errorf("20 reports of kubelets were sent %v times", got)
	}
}

func unlabel(o *unstructured.Unstructured) { o.SetLabels(nil) }

// beside changes an object through a subresource.
func (r *rig) beside(ctx context.Context, object *unstructured.Unstructured, subresource string, change func(*unstructured.Unstructured)) error {
	resource, err := r.of(object)
	if err != nil {
		return err
	}
	current, err := resource.Get(ctx, object.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	change(current)
	_, err = resource.Update(ctx, current, metav1.UpdateOptions{}, subresource)
	return err
}

// TestScaleIsSeen has the shipped examples decide what kubectl scale does.
func TestScaleIsSeen(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	namespace := r.Namespace(t)
	policy := parse(t, `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterValidatePolicy
metadata: {name: %[1]q}
spec:
  resourceSelectors:
  - {apiVersion: apps/v1, kind: Deployment, namespace: %[1]q}
  - {apiVersion: autoscaling/v1, kind: Scale, namespace: %[1]q}
  validateRules:
  - targetOperations: [CREATE, UPDATE]
    template:
      type: condition
      condition:
        cond: Gt
        dataRef: {from: current, path: /spec/replicas}
        value: {integer: 3}
        message: at most three
`, namespace)
	r.enforce(t, policy)
	deployment := r.create(t, parse(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: %q}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: registry.example/web:1.0.0}]}}
`, namespace))
	eventually(t, "the refusal of too many replicas", func() error {
		scale, err := r.kube.AppsV1().Deployments(namespace).GetScale(testContext(t), deployment.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		scale.Spec.Replicas = 4
		_, err = r.kube.AppsV1().Deployments(namespace).UpdateScale(testContext(t), deployment.GetName(), scale, metav1.UpdateOptions{DryRun: dryRun})
		return wantDenied(err, "at most three")
	})
}

// TestPoliciesAreSentRegardless has selectors of objects that policies do not match.
func TestPoliciesAreSentRegardless(t *testing.T) {
	t.Parallel()
	r := newRig(t, sandbox.Options{Exclusive: true})
	r.serve(t, "--compat-label")
	broken := parse(t, `
apiVersion: policy.kcloudlabs.io/v1alpha1
kind: ClusterOverridePolicy
metadata: {name: broken}
spec:
  overrideRules:
  - targetOperations: [CREATE]
    overriders: {cue: "patches: ["}
`)
	eventually(t, "the refusal of a policy without the label", func() error {
		_, err := r.try(testContext(t), broken)
		return wantDenied(err, "cue")
	})
	configurations, err := r.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(testContext(t), "usher", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range configurations.Webhooks {
		names = append(names, configurations.Webhooks[i].Name)
	}
	if want := []string{"validate-policies.usher.dev", "validate-rights.usher.dev", "validate-deletions.usher.dev"}; !slices.Equal(names, want) {
		t.Errorf("without policies the entries are %q, want %q", names, want)
	}
}
