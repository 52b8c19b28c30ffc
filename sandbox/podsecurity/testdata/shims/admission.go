// Package admission is compiled into the package of that name of k8s.io/pod-security-admission,
// whose tests then ask Usher in place of its plugin.
package admission

import (
	"context"
	"encoding/json"
	"maps"
	"net"
	"os"
	"reflect"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	admissionapi "k8s.io/pod-security-admission/admission/api"
	"k8s.io/pod-security-admission/api"
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
	if err := call(q, &got); err != nil {
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

// call sends a question to the test process, and reads the answer.
func call(q, a any) error {
	conn, err := net.Dial("unix", os.Getenv("ORACLE_SOCKET"))
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := json.NewEncoder(conn).Encode(q); err != nil {
		return err
	}
	return json.NewDecoder(conn).Decode(a)
}
