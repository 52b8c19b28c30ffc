// Package admission is compiled into the package of that name of k8s.io/pod-security-admission,
// whose tests then ask Usher in place of its plugin.
package admission

import (
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	admissionapi "k8s.io/pod-security-admission/admission/api"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/oracle"
)

// question is a request that the test process is asked about.
type question struct {
	Defaults          admissionapi.PodSecurityDefaults
	Exemptions        admissionapi.PodSecurityExemptions
	Labels            map[string]string
	Missing           bool
	Operation         string
	Subresource       string
	Kind              schema.GroupVersionKind
	Resource          schema.GroupVersionResource
	Name, Namespace   string
	User              string
	Object, OldObject json.RawMessage
}

// answer is what Usher decides.
type answer struct {
	Allowed  bool
	Reason   metav1.StatusReason
	Message  string
	Warnings []string
	Audit    string
}

// ask returns the response of the plugin, with the verdict, the warnings and the violations that are
// audited of Usher. Metrics and the other annotations are those of the plugin.
func (a *Admission) ask(theirs *admissionv1.AdmissionResponse, ctx context.Context, attrs api.Attributes) *admissionv1.AdmissionResponse {
	q := question{
		Defaults: a.Configuration.Defaults, Exemptions: a.Configuration.Exemptions, Operation: string(attrs.GetOperation()), Subresource: attrs.GetSubresource(),
		Kind: schema.GroupVersionKind(attrs.GetKind()), Resource: attrs.GetResource(),
		Name: attrs.GetName(), Namespace: attrs.GetNamespace(), User: attrs.GetUserName(),
	}
	namespace, err := a.NamespaceGetter.GetNamespace(ctx, attrs.GetNamespace())
	if q.Missing = err != nil; !q.Missing {
		q.Labels = namespace.Labels
	}
	if !decoded(&q.Object, q.Kind.Kind, attrs.GetObject) || !decoded(&q.OldObject, q.Kind.Kind, attrs.GetOldObject) {
		// API servers refuse these before they ask.
		return theirs
	}
	var got answer
	if err := oracle.Ask(q, &got); err != nil {
		return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: err.Error()}}
	}
	response := &admissionv1.AdmissionResponse{Allowed: got.Allowed, Warnings: got.Warnings, AuditAnnotations: maps.Clone(theirs.AuditAnnotations)}
	if !got.Allowed {
		response.Result = &metav1.Status{Reason: got.Reason, Message: got.Message}
	}
	delete(response.AuditAnnotations, api.AuditViolationsAnnotationKey)
	if got.Audit != "" {
		if response.AuditAnnotations == nil {
			response.AuditAnnotations = map[string]string{}
		}
		response.AuditAnnotations[api.AuditViolationsAnnotationKey] = got.Audit
	}
	return response
}

// namespaceQuestion is about a namespace and its pods.
type namespaceQuestion struct {
	// Ask is validate, warn or prioritize.
	Ask               string
	Defaults          admissionapi.PodSecurityDefaults
	Exemptions        admissionapi.PodSecurityExemptions
	Operation         string
	Name              string
	Object, OldObject json.RawMessage
	// Listed says that the pods have been listed, of which Most are validated.
	Listed    bool
	Pods      []*corev1.Pod
	ListError string
	Most      int
}

// namespaceAnswer is what Usher decides. Lists says that it needs the pods.
type namespaceAnswer struct {
	Allowed  bool
	Message  string
	Warnings []string
	Lists    bool
	Order    []int
}

// askNamespace returns what Usher decides about a namespace. Pods are listed if it needs them.
func (a *Admission) askNamespace(ctx context.Context, attrs api.Attributes) *admissionv1.AdmissionResponse {
	q := namespaceQuestion{
		Ask: "validate", Defaults: defaults(&a.defaultPolicy), Exemptions: a.Configuration.Exemptions, Operation: string(attrs.GetOperation()),
		Name: attrs.GetName(), Most: a.namespaceMaxPodsToCheck,
	}
	decoded(&q.Object, "Namespace", attrs.GetObject)
	decoded(&q.OldObject, "Namespace", attrs.GetOldObject)
	var got namespaceAnswer
	err := oracle.Ask(q, &got)
	if err == nil && got.Lists {
		ctx, cancel := context.WithTimeout(ctx, a.namespacePodCheckTimeout)
		defer cancel()
		var failed error
		if q.Pods, failed = a.PodLister.ListPods(ctx, q.Name); failed != nil {
			q.ListError = failed.Error()
		}
		q.Listed, got = true, namespaceAnswer{}
		err = oracle.Ask(q, &got)
	}
	if err != nil {
		return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: err.Error()}}
	}
	for _, warning := range got.Warnings {
		if _, level, ok := strings.Cut(warning, "PodSecurity enforce level \""); ok {
			level, version, _ := strings.Cut(strings.TrimSuffix(level, "\""), ":")
			at := api.LevelVersion{Level: api.Level(level)}
			at.Version, _ = api.ParseVersion(version)
			a.Evaluator.EvaluatePod(at, &metav1.ObjectMeta{}, &corev1.PodSpec{})
		}
	}
	response := &admissionv1.AdmissionResponse{Allowed: got.Allowed, Warnings: got.Warnings}
	if !got.Allowed {
		response.Result = &metav1.Status{Message: got.Message}
	}
	return response
}

// askWarning returns the warning of Usher when an exempt namespace is created.
func (a *Admission) askWarning(name string, labels map[string]string) string {
	namespace, err := json.Marshal(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	if err != nil {
		return err.Error()
	}
	var got namespaceAnswer
	if err := oracle.Ask(namespaceQuestion{
		Ask: "warn", Defaults: defaults(&a.defaultPolicy), Exemptions: admissionapi.PodSecurityExemptions{Namespaces: []string{name}},
		Operation: string(admissionv1.Create), Name: name, Object: namespace,
	}, &got); err != nil {
		return err.Error()
	}
	return strings.Join(got.Warnings, "\n")
}

// askOrder returns the pods in the order in which Usher validates them.
func askOrder(pods []*corev1.Pod) []*corev1.Pod {
	var got namespaceAnswer
	if err := oracle.Ask(namespaceQuestion{Ask: "prioritize", Pods: pods}, &got); err != nil {
		return nil
	}
	var ordered []*corev1.Pod
	for _, i := range got.Order {
		ordered = append(ordered, pods[i])
	}
	return ordered
}

// defaults are the levels of a policy; those that are not set are privileged.
func defaults(p *api.Policy) admissionapi.PodSecurityDefaults {
	of := func(lv api.LevelVersion) (level, version string) {
		if lv.Level == "" {
			return string(api.LevelPrivileged), "latest"
		}
		return string(lv.Level), lv.Version.String()
	}
	var d admissionapi.PodSecurityDefaults
	d.Enforce, d.EnforceVersion = of(p.Enforce)
	d.Audit, d.AuditVersion = of(p.Audit)
	d.Warn, d.WarnVersion = of(p.Warn)
	return d
}

// decoded reports whether an object is of the kind of the request, and encodes it.
func decoded(encoded *json.RawMessage, kind string, get func() (runtime.Object, error)) bool {
	obj, err := get()
	if err != nil {
		return false
	}
	if obj == nil {
		return true
	}
	if reflect.TypeOf(obj).Elem().Name() != kind {
		return false
	}
	*encoded, err = json.Marshal(obj)
	return err == nil
}
