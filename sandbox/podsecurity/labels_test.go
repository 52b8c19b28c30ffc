package podsecurity

import (
	"context"
	"encoding/json"
	"flag"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	psaadmission "k8s.io/pod-security-admission/admission"
	admissionapi "k8s.io/pod-security-admission/admission/api"
	psaapi "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/metrics"

	usher "github.com/usher-dev/usher"
)

// requests is how many are made: make pod-security makes more.
var requests = flag.Int("requests", 3000, "how many requests to generate for namespaces with labels")

const labelsPolicy = "ClusterObjectPolicy pod-security-labels-pods"

// A cluster is what both sides know of namespaces and pods.
type cluster struct {
	namespace *corev1.Namespace
	pods      []*corev1.Pod
}

func (c *cluster) GetNamespace(context.Context, string) (*corev1.Namespace, error) {
	return c.namespace, nil
}

func (c *cluster) ListPods(context.Context, string) ([]*corev1.Pod, error) { return c.pods, nil }

// plugin is the admission plugin PodSecurity.
func plugin(tb testing.TB, configuration *admissionapi.PodSecurityConfiguration, c *cluster) *psaadmission.Admission {
	tb.Helper()
	a := &psaadmission.Admission{
		Configuration: configuration, Evaluator: upstream(tb), Metrics: metrics.NewPrometheusRecorder(psaapi.GetAPIVersion()),
		PodSpecExtractor: psaadmission.DefaultPodSpecExtractor{}, NamespaceGetter: c, PodLister: c,
	}
	if err := a.CompleteConfiguration(); err != nil {
		tb.Fatal(err)
	}
	if err := a.ValidateConfiguration(); err != nil {
		tb.Fatal(err)
	}
	return a
}

// labels are any for Pod Security, often wrong.
func (g *generator) labels() map[string]string {
	labels := map[string]string{}
	for _, mode := range []string{"enforce", "audit", "warn"} {
		if g.IntN(2) == 0 {
			labels["pod-security.kubernetes.io/"+mode] = oneOf(g, "privileged", "baseline", "restricted", "restricted", "Baseline", "")
		}
		if g.IntN(3) == 0 {
			labels["pod-security.kubernetes.io/"+mode+"-version"] = oneOf(g, "latest", "v1.0", "v1.18", "v1.21", "v1.22", "v1.34", "v1.35", "v1.99", "v1.01", "1.30", "v2.0", "")
		}
	}
	return labels
}

func (g *generator) defaults() admissionapi.PodSecurityDefaults {
	level := func() string { return oneOf(g, "privileged", "privileged", "baseline", "restricted") }
	version := func() string { return oneOf(g, "latest", "latest", "v1.20", "v1.34") }
	return admissionapi.PodSecurityDefaults{
		Enforce: level(), EnforceVersion: version(), Audit: level(), AuditVersion: version(), Warn: level(), WarnVersion: version(),
	}
}

// A target is an object of a kind that both sides decide about.
type target struct {
	object   runtime.Object
	kind     schema.GroupVersionKind
	resource schema.GroupVersionResource
}

// target makes a pod or what makes pods.
func (g *generator) target() target {
	pod := g.pod()
	if g.IntN(2) == 0 {
		return target{pod, corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithResource("pods")}
	}
	meta := metav1.ObjectMeta{Name: "work", Namespace: namespace}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: pod.Annotations}, Spec: pod.Spec}
	job := batchv1.JobSpec{Template: template}
	apps, batch := appsv1.SchemeGroupVersion, batchv1.SchemeGroupVersion
	of := func(object runtime.Object, gv schema.GroupVersion, kind string) target {
		return target{object, gv.WithKind(kind), gv.WithResource(strings.ToLower(kind) + "s")}
	}
	return oneOf(g,
		of(&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Template: template}}, apps, "Deployment"),
		of(&appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Template: template}}, apps, "ReplicaSet"),
		of(&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Template: template}}, apps, "StatefulSet"),
		of(&appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Template: template}}, apps, "DaemonSet"),
		of(&batchv1.Job{ObjectMeta: meta, Spec: job}, batch, "Job"),
		of(&batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: job}}}, batch, "CronJob"),
		of(&corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Template: &template}}, corev1.SchemeGroupVersion, "ReplicationController"),
		of(&corev1.ReplicationController{ObjectMeta: meta}, corev1.SchemeGroupVersion, "ReplicationController"),
		of(&corev1.PodTemplate{ObjectMeta: meta, Template: template}, corev1.SchemeGroupVersion, "PodTemplate"),
	)
}

// before returns an object that t replaces: the same, or one with another image.
func (g *generator) before(t target) runtime.Object {
	old := t.object.DeepCopyObject()
	pod, ok := old.(*corev1.Pod)
	if !ok {
		return old
	}
	switch g.IntN(5) {
	case 0:
		pod.Spec.Containers[0].Image = "other"
	case 1:
		if len(pod.Spec.InitContainers) > 0 {
			pod.Spec.InitContainers[len(pod.Spec.InitContainers)-1].Image = "other"
		}
	case 2:
		if n := len(pod.Spec.EphemeralContainers); n > 0 {
			pod.Spec.EphemeralContainers = pod.Spec.EphemeralContainers[:n-1]
		}
	case 3:
		pod.Labels = map[string]string{"old": "true"}
	default:
		if n := len(pod.Spec.EphemeralContainers); n > 0 {
			pod.Spec.EphemeralContainers[n-1].Image = "other"
		}
	}
	return old
}

// TestLabels decides pods and workloads in namespaces with labels, as the admission plugin does: the
// verdict, the text of the refusal, and the warnings.
func TestLabels(t *testing.T) {
	t.Parallel()
	const configurations = 10
	for seed := range uint64(configurations) {
		g := newGenerator(1000 + seed)
		defaults := g.defaults()
		c := &cluster{}
		configuration := &admissionapi.PodSecurityConfiguration{Defaults: defaults, Exemptions: admissionapi.PodSecurityExemptions{Namespaces: []string{"exempt"}, RuntimeClasses: []string{"kata"}}}
		reference := plugin(t, configuration, c)
		written := policies(t, byLabels, func(spec map[string]any) {
			bindings := spec["bindings"].([]any)
			if len(bindings) < 3 {
				return
			}
			setParam(spec, "defaults", map[string]any{
				"enforce": defaults.Enforce, "enforce-version": defaults.EnforceVersion, "audit": defaults.Audit, "audit-version": defaults.AuditVersion,
				"warn": defaults.Warn, "warn-version": defaults.WarnVersion,
			})
			setParam(spec, "exemptNamespaces", []any{"exempt"})
			setParam(spec, "exemptRuntimeClasses", []any{"kata"})
		})
		given := map[string]any{}
		d := decider(t, written, labelled(given))
		for range *requests / configurations {
			labels := g.labels()
			c.namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: labels}}
			clear(given)
			for k, v := range labels {
				given[k] = v
			}
			g.compareRequest(t, reference, d)
			if t.Failed() {
				t.Fatalf("seed %d, labels %v, defaults %+v", seed, labels, defaults)
			}
		}
	}
}

func (g *generator) compareRequest(t *testing.T, reference *psaadmission.Admission, d usher.Decider) {
	t.Helper()
	subject := g.target()
	if pod, ok := subject.object.(*corev1.Pod); ok {
		pod.Spec.RuntimeClassName = oneOf(g, nil, nil, nil, new("kata"), new("gvisor"))
	}
	in := oneOf(g, namespace, namespace, namespace, namespace, "exempt")
	attributes := &psaapi.AttributesRecord{
		Name: "work", Namespace: in, Kind: subject.kind, Resource: subject.resource, Operation: admissionv1.Create, Object: subject.object, Username: "jane",
	}
	r := &usher.Request{Phase: usher.Validate, Operation: usher.Create, Name: "work", Namespace: in, Kind: subject.kind, Resource: subject.resource, Object: encoded(t, subject)}
	if g.IntN(3) == 0 {
		old := target{g.before(subject), subject.kind, subject.resource}
		attributes.Operation, attributes.OldObject = admissionv1.Update, old.object
		r.Operation, r.OldObject = usher.Update, encoded(t, old)
	}
	want := reference.Validate(t.Context(), attributes)
	got, err := d.Decide(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	wanted, told := outcome{Allowed: want.Allowed, Warnings: want.Warnings}, outcome{Allowed: got.Verdict == usher.Allow}
	if !want.Allowed {
		_, wanted.Message, _ = strings.Cut(want.Result.Message, " is forbidden: ")
	}
	wanted.Audited = strings.Contains(want.AuditAnnotations["audit-violations"], "would violate")
	for _, w := range got.Warnings {
		if !want.Allowed {
			// The plugin leaves warnings out of refusals; bindings do not know of each other.
			break
		}
		told.Warnings = append(told.Warnings, strings.TrimSuffix(w, " ("+labelsPolicy+")"))
	}
	told.Message = strings.TrimSuffix(got.Message, " ("+labelsPolicy+")")
	for _, value := range got.Audit {
		told.Audited = told.Audited || strings.Contains(value, "would violate")
	}
	if diff := cmp.Diff(wanted, told); diff != "" {
		t.Errorf("%s %s: another outcome than that of the plugin (-want +got):\n%s", r.Operation, subject.kind.Kind, diff)
	}
}

// An outcome is what both sides have in common.
type outcome struct {
	Allowed  bool
	Message  string
	Warnings []string
	Audited  bool
}

func encoded(t *testing.T, of target) *usher.Object {
	t.Helper()
	text, err := json.Marshal(of.object)
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	maps.Copy(tree, map[string]any{"apiVersion": of.kind.GroupVersion().String(), "kind": of.kind.Kind})
	if text, err = json.Marshal(tree); err != nil {
		t.Fatal(err)
	}
	return usher.RawObject(text)
}
