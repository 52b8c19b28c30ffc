package admission_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	usher "github.com/usher-dev/usher"
)

var (
	widgetKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	podKind    = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
)

// situations returns requests with objects that are made up: n of widgets, and n of pods.
func situations(t testing.TB, n int) map[string][]*situation {
	t.Helper()
	all := map[string][]*situation{}
	for i := range n {
		for family, made := range map[string]func(*rand.Rand) runtime.Object{"widget": generatedWidget, "pod": generatedPod} {
			// The choices must not depend on the order of a map.
			own := rand.New(rand.NewPCG(uint64(i), uint64(len(family))))
			q := request{name: fmt.Sprintf("%s %d", family, i), operation: usher.Create, kind: podKind, resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, object: made(own)}
			if family == "widget" {
				q.kind, q.resource = widgetKind, schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
			}
			switch i % 5 {
			case 1:
				q.operation, q.old = usher.Update, made(own)
			case 2:
				q.operation, q.old, q.object = usher.Delete, q.object, nil
			case 3:
				q.subresource, q.dryRun = "status", true
			}
			q.user = usher.User{Name: "jane", Groups: []string{"devs", "system:authenticated"}}
			if i%3 == 0 {
				q.user.UID, q.user.Extra = "u-1", map[string][]string{"amr": {"pwd", "mfa"}}
			}
			if i%4 != 3 {
				q.namespace = namespaceOf(i)
			}
			if i%3 != 2 {
				q.params = paramsOf(i)
			}
			all[family] = append(all[family], q.situation(t))
		}
	}
	return all
}

func namespaceOf(i int) *corev1.Namespace {
	n := &corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "shop", UID: "0-1", ResourceVersion: "7", Generation: 2, CreationTimestamp: metav1.NewTime(time.Date(2024, 2, 29, 1, 2, 3, 0, time.UTC)),
			Labels: map[string]string{"env": "prod"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		},
		Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes"}}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
	}
	if i%2 == 1 {
		n.Labels, n.Annotations = nil, map[string]string{"owner": "ann"}
	}
	return n
}

func paramsOf(i int) runtime.Object {
	if i%2 == 0 {
		return &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "shop"}, Data: map[string]string{"key": "web"}}
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Limit", "metadata": map[string]any{"name": "l"}, "spec": map[string]any{"replicas": int64(3), "ratio": 0.75}}}
}

// generatedWidget is an object of a custom resource: fields may be missing, and may have another type than
// most have.
func generatedWidget(r *rand.Rand) runtime.Object {
	spec := map[string]any{}
	for _, f := range []struct {
		name   string
		values []any
	}{
		{"text", []any{"web", "", "a,b,c", "  x ", "100% %d", strings.Repeat("long ", 40)}},
		{"unicode", []any{"ünï-😀-код", "\u0000\u0001", "e\u0301", "\u65e5\u672c"}},
		{"host", []any{"example.com", "*.example.com", "Bad_Host"}},
		{"names", []any{[]any{"web", "app", "db"}, []any{"a"}, []any{"b", "a", "b", "a"}, []any{}}},
		{"numbers", []any{[]any{int64(3), int64(1), int64(2)}, []any{int64(1), int64(1)}, []any{int64(math.MaxInt64), int64(math.MinInt64)}}},
		{"ratios", []any{[]any{0.5, 2.25}, []any{1e300, -0.125, 1e-9}}},
		{"mixed", []any{[]any{int64(1), "a", true, nil, 0.5, []any{}, map[string]any{}}}},
		{"matrix", []any{[]any{[]any{int64(1), int64(2)}, []any{}, []any{int64(3)}}}},
		{"empty", []any{[]any{}}}, {"emptyMap", []any{map[string]any{}}}, {"null", []any{nil}},
		{"one", []any{map[string]any{"a": int64(1)}, map[string]any{"web": "app"}}},
		{"limits", []any{map[string]any{"memory": "4Gi", "cpu": "500m"}, map[string]any{"memory": "x"}}},
		{"deep", []any{map[string]any{"a": map[string]any{"b": map[string]any{"c": map[string]any{"d": "web"}}}}, map[string]any{"a": nil}, nest(60)}},
		{"quantity", []any{"1.5Gi", "250m", "junk"}}, {"url", []any{"https://example.com/a?b=c", "::"}}, {"ip", []any{"10.1.2.3", "fe80::1", "300.1.1.1"}},
		{"version", []any{"1.2.3", "v1.2", "1.0.0-beta"}}, {"dash-ed", []any{"dashed"}}, {"when", []any{"2024-02-29T12:00:00Z", "yesterday"}}, {"wait", []any{"90m", "soon"}},
		{"replicas", []any{int64(3), int64(0), int64(-1)}}, {"max", []any{int64(math.MaxInt64)}}, {"min", []any{int64(math.MinInt64)}}, {"zero", []any{int64(0)}},
		{"ratio", []any{0.5, 1e-7, -2.25}}, {"huge", []any{1e300, 5e-324}}, {"flag", []any{true, false}},
		{"containers", []any{containers(r), containers(r), []any{}, nil}},
	} {
		switch r.IntN(12) {
		case 0:
		case 1:
			spec[f.name] = []any{"text", int64(7), nil, true, []any{int64(1)}, map[string]any{"a": "b"}, 1.5}[r.IntN(7)]
		default:
			spec[f.name] = f.values[r.IntN(len(f.values))]
		}
	}
	metadata := map[string]any{"name": "web", "namespace": "shop", "labels": map[string]any{"app": "web"}, "annotations": map[string]any{"note": `a"b`}, "generation": int64(4)}
	switch r.IntN(4) {
	case 0:
		metadata["labels"] = map[string]any{"app": "web", "a/b": "c", "tier": "2"}
	case 1:
		delete(metadata, "labels")
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": spec}}
}

func nest(depth int) any {
	if depth == 0 {
		return []any{}
	}
	return map[string]any{"a": nest(depth - 1)}
}

func containers(r *rand.Rand) []any {
	var all []any
	for i := range 1 + r.IntN(3) {
		c := map[string]any{"name": fmt.Sprintf("c%d", i), "image": []any{"registry.example/app:1.2.3", "busybox"}[r.IntN(2)], "ready": r.IntN(2) == 0}
		if r.IntN(2) == 0 {
			c["ports"] = []any{map[string]any{"port": int64(80)}, map[string]any{"port": int64(443), "name": "https"}}
		}
		if r.IntN(3) == 0 {
			c["none"] = nil
		}
		all = append(all, c)
	}
	return all
}

// generatedPod is an object of the API server's own types.
func generatedPod(r *rand.Rand) runtime.Object {
	p := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", Annotations: map[string]string{"note": "n"}},
		Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, ServiceAccountName: "default"},
	}
	maybe := func(set func()) {
		if r.IntN(3) > 0 {
			set()
		}
	}
	maybe(func() { p.Labels = map[string]string{"app": "web"} })
	maybe(func() { p.CreationTimestamp = metav1.NewTime(time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)) })
	maybe(func() { p.Finalizers = []string{"example.com/keep"} })
	maybe(func() { p.Spec.TerminationGracePeriodSeconds = new(int64(30)) })
	maybe(func() { p.Spec.NodeName = "n1" })
	maybe(func() { p.Spec.HostNetwork = true })
	maybe(func() { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} })
	maybe(func() { p.Spec.Priority = new(int32(math.MinInt32)) })
	maybe(func() {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(math.MaxInt64)), RunAsNonRoot: new(false)}
	})
	maybe(func() {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}, {Name: "w"}}
	})
	for i := range 1 + r.IntN(3) {
		c := corev1.Container{Name: fmt.Sprintf("c%d", i), Image: []string{"registry.example/app:1.2.3", "busybox"}[r.IntN(2)]}
		maybe(func() { c.Command = []string{"sh", "-c", "true"} })
		maybe(func() { c.Ports = []corev1.ContainerPort{{ContainerPort: 80}, {ContainerPort: 443, Name: "https"}} })
		maybe(func() { c.Env = []corev1.EnvVar{{Name: "A", Value: "x"}, {Name: "B"}} })
		maybe(func() {
			c.Resources.Limits = corev1.ResourceList{"memory": resource.MustParse("4Gi"), "cpu": resource.MustParse("0.5")}
		})
		maybe(func() { c.SecurityContext = &corev1.SecurityContext{Privileged: new(r.IntN(2) == 0)} })
		maybe(func() {
			c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: []intstr.IntOrString{intstr.FromInt32(80), intstr.FromString("http")}[r.IntN(2)]}}}
		})
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	return p
}
