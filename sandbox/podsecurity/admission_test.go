package podsecurity

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	admissionapi "k8s.io/pod-security-admission/admission/api"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/fact"
)

// A requestQuestion is a request that the plugin is asked about.
type requestQuestion struct {
	Defaults          admissionapi.PodSecurityDefaults
	Exemptions        admissionapi.PodSecurityExemptions
	Labels            map[string]string
	Missing           bool
	Operation         usher.Operation
	Subresource       string
	Kind              schema.GroupVersionKind
	Resource          schema.GroupVersionResource
	Name, Namespace   string
	User              string
	Object, OldObject map[string]any
}

// A requestAnswer is what the policies say in place of the plugin.
type requestAnswer struct {
	Allowed  bool
	Reason   metav1.StatusReason
	Message  string
	Warnings []string
	Audit    string
}

const podAndController = "TestValidatePodAndController"

// rowsOfUpstream is how many rows the tests have that ask.
const rowsOfUpstream = 69

// workloads are the rows whose answer is another one, with the reason.
var workloads = map[string]string{ //nolint:gochecknoglobals // a table
	podAndController + "/deployment:namespace_not_found": "policies that cannot read a namespace refuse, also workloads",
	ofNamespaces + "/prioritized_pods":                   "pods of exempt runtime classes count until they have been read",
	ofNamespaces + "/timeout_on_evaluate":                "the evaluator of the test is slow, and policies are not: TestInspectionTells of engine has one that is",
}

// undecoded are the rows about objects that are not of the kind of the request. API servers refuse
// these before they ask.
var undecoded = []string{ //nolint:gochecknoglobals // a table
	podAndController + "/pod:failed_decode",
	podAndController + "/deployment:failed_decode",
	podAndController + "/pod:failed_decode_old_object",
	podAndController + "/pod:invalid_object",
	podAndController + "/deployment:invalid_object",
	podAndController + "/pod:invalid_old_object",
}

// TestAdmissionOfUpstream runs the tests that Kubernetes has for requests about pods, workloads and
// namespaces, with the policies for labels in place of its plugin.
func TestAdmissionOfUpstream(t *testing.T) {
	t.Parallel()
	if !*whole {
		t.Skip("run with -whole: TestLabels compares generated requests with the plugin")
	}
	s := replaced(t, "admission", func(f *ast.FuncDecl) string {
		if f.Recv == nil {
			return ""
		}
		return instead[f.Name.Name]
	})
	s.tests = []string{podAndController, ofNamespaces, ofOrder, ofWarnings}
	asked, j := 0, &labelsJudge{}
	answer := func(question []byte) requestAnswer {
		var q requestQuestion
		if err := json.Unmarshal(question, &q); err != nil {
			t.Fatal(err)
		}
		return j.answer(t, &q)
	}
	passed, output := s.run(t, func(question []byte) any {
		asked++
		if q := namespaceQuestionOf(t, question); q != nil {
			return q.answer(t)
		}
		return answer(question)
	})
	for row, ok := range passed {
		if _, differs := workloads[row]; isRow(row) && ok == differs {
			t.Errorf("%s: passes is %t; a difference is expected is %t", row, ok, differs)
		}
	}
	if t.Failed() {
		t.Fatal(output)
	}
	t.Logf("%d rows asked about %d requests", len(passed)-1, asked)
	if rows := len(passed) - 1; rows != rowsOfUpstream {
		t.Errorf("%d rows, expected %d: bring the number up to date, and the page docs/equality.md", rows, rowsOfUpstream)
	}
	passed, _ = s.run(t, func(question []byte) any {
		if q := namespaceQuestionOf(t, question); q != nil {
			a := q.answer(t)
			return a.wrong()
		}
		a := answer(question)
		return requestAnswer{Allowed: !a.Allowed}
	})
	for row, ok := range passed {
		if _, differs := workloads[row]; differs {
			continue
		}
		if asks := !slices.Contains(undecoded, row); isRow(row) && ok == asks {
			t.Errorf("with wrong answers, %s: passes is %t; it asks is %t", row, ok, asks)
		}
	}
}

// isRow reports whether a name is that of a row of a table, or of a test that has none.
func isRow(name string) bool { return strings.Contains(name, "/") || name == ofOrder }

// instead are the methods that ask.
var instead = map[string]string{ //nolint:gochecknoglobals // a table
	"Validate":               "\nfunc (a *Admission) Validate(ctx context.Context, attrs api.Attributes) *admissionv1.AdmissionResponse { return a.ask(a.upstream_Validate(ctx, attrs), ctx, attrs) }\n",
	"ValidateNamespace":      "\nfunc (a *Admission) ValidateNamespace(ctx context.Context, attrs api.Attributes) *admissionv1.AdmissionResponse { return a.askNamespace(ctx, attrs) }\n",
	"prioritizePods":         "\nfunc (a *Admission) prioritizePods(pods []*corev1.Pod) []*corev1.Pod { return askOrder(pods) }\n",
	"exemptNamespaceWarning": "\nfunc (a *Admission) exemptNamespaceWarning(name string, _ api.Policy, labels map[string]string) string { return a.askWarning(name, labels) }\n",
}

// A labelsJudge decides by the policies for labels. The configuration is the same for all requests.
type labelsJudge struct {
	usher.Decider

	labels map[string]any
	// missing is whether the namespace does not exist.
	missing bool
}

func (j *labelsJudge) answer(t *testing.T, q *requestQuestion) requestAnswer {
	t.Helper()
	if j.Decider == nil {
		j.labels = map[string]any{}
		j.Decider = decider(t, q.policies(t), fact.ResolverFunc(func(ctx context.Context, ref fact.Ref) (any, error) {
			if j.missing {
				return nil, fmt.Errorf("%s does not exist", ref)
			}
			return labelled(j.labels).Resolve(ctx, ref)
		}))
	}
	j.missing = q.Missing
	clear(j.labels)
	for k, v := range q.Labels {
		j.labels[k] = v
	}
	r := &usher.Request{
		Phase: usher.Validate, Operation: q.Operation, Name: q.Name, Namespace: q.Namespace, Kind: q.Kind, Resource: q.Resource, Subresource: q.Subresource,
		Object: q.sent(t, q.Object), OldObject: q.sent(t, q.OldObject),
	}
	r.User.Name = q.User
	got, err := j.Decide(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	a := requestAnswer{Allowed: got.Verdict == usher.Allow, Reason: metav1.StatusReason(got.Reason), Message: got.Message}
	for _, w := range got.Warnings {
		if !a.Allowed {
			// The plugin leaves warnings out of refusals; bindings do not know of each other.
			break
		}
		a.Warnings = append(a.Warnings, strings.TrimSuffix(w, " ("+labelsPolicy+")"))
	}
	for _, value := range got.Audit {
		if strings.Contains(value, "would violate") {
			a.Audit = value
		}
	}
	if got.Code == http.StatusInternalServerError {
		a.Reason = metav1.StatusReasonInternalError
	}
	return a
}

// policies returns the policies for labels with the configuration of the plugin.
func (q *requestQuestion) policies(t *testing.T) []api.Policy {
	t.Helper()
	return policies(t, byLabels, func(spec map[string]any) {
		setParam(spec, "defaults", map[string]any{
			"enforce": q.Defaults.Enforce, "enforce-version": q.Defaults.EnforceVersion, "audit": q.Defaults.Audit, "audit-version": q.Defaults.AuditVersion,
			"warn": q.Defaults.Warn, "warn-version": q.Defaults.WarnVersion,
		})
		setParam(spec, "exemptNamespaces", list(q.Exemptions.Namespaces))
		setParam(spec, "exemptRuntimeClasses", list(q.Exemptions.RuntimeClasses))
		spec["excludeSubjects"] = []any{map[string]any{"users": list(q.Exemptions.Usernames)}}
	})
}

// sent encodes an object as an API server would send it.
func (q *requestQuestion) sent(t *testing.T, object map[string]any) *usher.Object {
	t.Helper()
	if object == nil {
		return nil
	}
	for _, path := range [][]string{{"spec", "containers"}, {"spec", "template", "spec", "containers"}} {
		// API servers require some.
		if all, found, _ := unstructured.NestedFieldNoCopy(object, path...); found && all == nil {
			if err := unstructured.SetNestedSlice(object, []any{}, path...); err != nil {
				t.Fatal(err)
			}
		}
	}
	maps.Copy(object, map[string]any{"apiVersion": q.Kind.GroupVersion().String(), "kind": q.Kind.Kind})
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return usher.RawObject(text)
}

func list(values []string) []any {
	all := []any{}
	for _, v := range values {
		all = append(all, v)
	}
	return all
}
