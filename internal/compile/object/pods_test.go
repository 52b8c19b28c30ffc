package object_test

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	root "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/compile/object"
	"github.com/usher-dev/usher/internal/rule"
)

// TestPodTemplates tells for which policies there is a rule for the pods of workloads.
func TestPodTemplates(t *testing.T) {
	t.Parallel()
	of := func(operations, resources string) admissionv1.NamedRuleWithOperations {
		var r admissionv1.NamedRuleWithOperations
		for o := range strings.FieldsSeq(operations) {
			r.Operations = append(r.Operations, admissionv1.OperationType(o))
		}
		r.APIGroups, r.APIVersions, r.Resources = []string{""}, []string{"v1"}, strings.Fields(resources)
		return r
	}
	named := of("CREATE", "pods")
	named.ResourceNames = []string{"web"}
	cluster := of("CREATE", "pods")
	cluster.Scope = new(admissionv1.ClusterScope)
	apps := of("CREATE", "pods")
	apps.APIGroups = []string{"metrics.k8s.io"}
	old, confused := of("CREATE", "pods"), of("CREATE", "pod")
	old.APIVersions = []string{"v1beta1"}
	confused.APIGroups, confused.APIVersions = []string{"core"}, []string{"v2"}
	const at = "spec.matchConstraints.resourceRules[0]."
	const created = ": the policy is not for pods that are created"
	const noPods = "spec.podTemplates: the policy is not for pods that are created, so it does not judge the pods of workloads"
	const silent = "spec.podTemplates: the policy is for pods and for workloads that make them: it allows a workload whose pods it denies, without a warning"
	for _, test := range []struct {
		reason  string
		rules   []admissionv1.NamedRuleWithOperations
		value   v1alpha1.PodTemplates
		warns   bool
		ignores bool
		problem string
	}{
		{"only pods", []admissionv1.NamedRuleWithOperations{of("CREATE UPDATE", "pods")}, "", true, true, ""},
		{"all operations on pods", []admissionv1.NamedRuleWithOperations{of("*", "pods")}, "", true, true, ""},
		{"pods and where they are written besides", []admissionv1.NamedRuleWithOperations{of("CREATE", "pods"), of("UPDATE", "pods/ephemeralcontainers pods/resize")}, "", true, true, ""},
		{"it is switched off", []admissionv1.NamedRuleWithOperations{of("CREATE", "pods")}, "Off", false, false, ""},
		{"it is to deny", []admissionv1.NamedRuleWithOperations{of("CREATE", "pods")}, "Deny", true, false, ""},
		{"more than pods", []admissionv1.NamedRuleWithOperations{of("CREATE", "pods services")}, "", false, false, ""},
		{"more than pods, and it is to warn", []admissionv1.NamedRuleWithOperations{of("CREATE", "pods services")}, "Warn", true, true, ""},
		{"everything, and it is to deny", []admissionv1.NamedRuleWithOperations{of("*", "*")}, "Deny", true, false, ""},
		{"exec is not a pod", []admissionv1.NamedRuleWithOperations{of("CREATE", "pods"), of("CONNECT", "pods/exec")}, "", false, false, ""},
		{"pods are only deleted", []admissionv1.NamedRuleWithOperations{of("DELETE", "pods")}, "", false, false, ""},
		{"pods are only updated", []admissionv1.NamedRuleWithOperations{of("UPDATE", "pods")}, "", false, false, ""},
		{"the pods of another group", []admissionv1.NamedRuleWithOperations{apps}, "", false, false, ""},
		{"other resources", []admissionv1.NamedRuleWithOperations{of("CREATE", "services")}, "Deny", false, false, noPods},
		{"a resource that is misspelled", []admissionv1.NamedRuleWithOperations{of("CREATE", "pod")}, "Deny", false, false, at + "resources[0]: there is no resource pod" + created},
		{"a version without pods", []admissionv1.NamedRuleWithOperations{old}, "Deny", false, false, at + "apiVersions: pods are not in the version v1beta1" + created},
		{"a group without pods", []admissionv1.NamedRuleWithOperations{apps}, "Deny", false, false, at + "apiGroups: pods are not in the API group metrics.k8s.io" + created},
		{
			"all of them at once", []admissionv1.NamedRuleWithOperations{confused}, "Deny", false, false,
			at + "apiGroups: pods are not in the API group core" + created + "\n" + at + "apiVersions: pods are not in the version v2" + created + "\n" + at + "resources[0]: there is no resource pod" + created,
		},
		{"a resource with a similar name", []admissionv1.NamedRuleWithOperations{of("CREATE", "nodes")}, "Deny", false, false, noPods},
		{"pods that are only deleted, and it is to warn", []admissionv1.NamedRuleWithOperations{of("DELETE", "pods")}, "Warn", false, false, noPods},
		{"subresources of pods", []admissionv1.NamedRuleWithOperations{of("UPDATE", "pods/ephemeralcontainers")}, "Warn", false, false, noPods},
		{"pods by name, when those of workloads have none", []admissionv1.NamedRuleWithOperations{named}, "Deny", false, false, noPods},
		{"a scope without pods", []admissionv1.NamedRuleWithOperations{cluster}, "Deny", false, false, noPods},
		{"pods and workloads", []admissionv1.NamedRuleWithOperations{of("CREATE", "pods"), of("CREATE", "replicationcontrollers")}, "", false, false, silent},
		{"all operations on pods and workloads", []admissionv1.NamedRuleWithOperations{of("*", "pods podtemplates")}, "", false, false, silent},
		{"pods and workloads, and it is off", []admissionv1.NamedRuleWithOperations{of("CREATE", "pods replicationcontrollers")}, "Off", false, false, ""},
		{"pods and workloads, and it is to warn", []admissionv1.NamedRuleWithOperations{of("CREATE", "pods replicationcontrollers")}, "Warn", true, true, ""},
		{"pods, and workloads that are deleted", []admissionv1.NamedRuleWithOperations{of("CREATE", "pods"), of("DELETE", "replicationcontrollers")}, "", false, false, ""},
		{"no such value", []admissionv1.NamedRuleWithOperations{of("CREATE", "pods")}, "Audit", false, false, `spec.podTemplates: "Audit" is not a value of podTemplates`},
	} {
		p := &v1alpha1.ClusterObjectPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
		p.Spec.MatchConstraints.ResourceRules, p.Spec.PodTemplates = test.rules, test.value
		p.Spec.Validations = []v1alpha1.Validation{{Expression: "object.spec.hostNetwork == false"}}
		compiled, problems := object.Cluster(t.Context(), p, object.Options{})
		var told []string
		for _, problem := range problems {
			told = append(told, problem.Field+": "+problem.What)
			if problem.Do == "" {
				t.Errorf("%s: %s: what to do is not told", test.reason, problem.What)
			}
		}
		if got := strings.Join(told, "\n"); got != test.problem {
			t.Errorf("%s: problems %q, not %q", test.reason, got, test.problem)
		}
		if test.problem != "" {
			continue
		}
		var found *rule.Rule
		for _, r := range compiled.Rules() {
			if r.Pod != nil {
				found = &r
			}
		}
		if (found != nil) != test.warns {
			t.Errorf("%s: the rule is %v", test.reason, found)
		}
		if found != nil && (found.Name != "spec.podTemplates" || (found.FailurePolicy == root.Ignore) != test.ignores) {
			t.Errorf("%s: the rule is %v, and its failure policy is %s", test.reason, found, found.FailurePolicy)
		}
		for _, r := range compiled.Unbound() {
			if r.Pod != nil {
				t.Errorf("%s: a trial runs the validations twice", test.reason)
			}
		}
	}
}

func TestPodTemplatesNeedValidations(t *testing.T) {
	t.Parallel()
	p := &v1alpha1.ClusterObjectPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	p.Spec.MatchConstraints.ResourceRules = []admissionv1.NamedRuleWithOperations{{
		RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{"CREATE"}, Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
		},
	}}
	p.Spec.AuditAnnotations = []admissionv1.AuditAnnotation{{Key: "a", ValueExpression: "'b'"}}
	compiled, problems := object.Cluster(t.Context(), p, object.Options{})
	if len(problems) > 0 || len(compiled.Rules()) != 1 {
		t.Errorf("audit annotations alone: %v, %v", problems, compiled.Rules())
	}
	p.Spec.PodTemplates = v1alpha1.PodTemplatesWarn
	if _, problems = object.Cluster(t.Context(), p, object.Options{}); len(problems) != 1 || !strings.Contains(problems[0].What, "no validations") {
		t.Errorf("got %v", problems)
	}
}

// TestPodTemplatesOfNamespaces: policies of namespaces do not act on PodTemplates, so that their authors need no
// rights on these.
func TestPodTemplatesOfNamespaces(t *testing.T) {
	t.Parallel()
	spec := v1alpha1.ObjectPolicySpec{
		MatchConstraints: admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{"CREATE"}, Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
		}}}},
		Validations: []v1alpha1.Validation{{Expression: "false"}}, PodTemplates: v1alpha1.PodTemplatesDeny,
	}
	write := func(group, kind, resource string) *root.Request {
		r := &root.Request{Phase: root.Validate, Operation: root.Create, Namespace: "shop", Name: "x"}
		r.Kind.Group, r.Kind.Version, r.Kind.Kind = group, "v1", kind
		r.Resource.Group, r.Resource.Version, r.Resource.Resource = group, "v1", resource
		return r
	}
	own := &v1alpha1.ObjectPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "shop"}, Spec: spec}
	ofNamespace, problems := object.Namespaced(t.Context(), own, object.Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	rules := ofNamespace.Rules()
	pods := rules[len(rules)-1]
	for _, row := range []struct {
		request *root.Request
		want    bool
	}{{write("", "PodTemplate", "podtemplates"), false}, {write("apps", "Deployment", "deployments"), true}} {
		if got := pods.Match.Resources[0].Matches(row.request); pods.Pod == nil || got != row.want {
			t.Errorf("%s: %t, want %t", row.request.Kind.Kind, got, row.want)
		}
	}
}
