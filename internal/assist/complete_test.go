package assist_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/usher-dev/usher/internal/assist"
)

// head begins a policy for pods.
const head = `apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata:
  name: a
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}
  paramKind: {apiVersion: v1, kind: ConfigMap}
  data:
  - {name: quota, object: {apiVersion: v1, kind: ResourceQuota, name: a}}
  variables:
  - name: containers
    expression: object.spec.containers
`

// cut returns a text without the mark of the cursor, and where that is.
func cut(t *testing.T, text string) (string, int) {
	t.Helper()
	before, after, ok := strings.Cut(text, "│")
	if !ok {
		t.Fatalf("no cursor in %q", text)
	}
	return before + after, len(before)
}

// TestComplete: what is offered at a place, and what is not.
func TestComplete(t *testing.T) {
	t.Parallel()
	service := assist.New(assist.Options{})
	for _, test := range []struct {
		reason, text string
		has, without []string
	}{
		{"a file without anything", "│", []string{"apiVersion", "kind"}, nil},
		{"a version", "apiVersion: │\n", []string{"usher.dev/v1alpha1", "admissionregistration.k8s.io/v1"}, []string{"v1"}},
		{"a kind of a version", "apiVersion: usher.dev/v1alpha1\nkind: Obj│", []string{"ObjectPolicy"}, []string{"ValidatingAdmissionPolicy"}},
		{"a key in an empty line", head + "  │\n", []string{"validations", "mutations"}, []string{"variables", "spec"}},
		{"a key in a line in the middle", strings.Replace(head, "  data:", "  fai│\n  data:", 1), []string{"failurePolicy"}, []string{"data"}},
		{"a key of an item", head + "  validations:\n  - │\n", []string{"expression", "message"}, []string{"validations"}},
		{"a second key of an item", head + "  validations:\n  - expression: 'true'\n    │\n", []string{"message"}, []string{"expression"}},
		{"a key in brackets", head + "  validations: [{message: a, │", []string{"expression"}, []string{"message"}},
		{"a value of those allowed", head + "  failurePolicy: │\n", []string{"Fail", "Ignore"}, []string{"validations"}},
		{"true or false", head + "  suspend: │", []string{"true", "false"}, nil},
		{"resources of a group", "apiVersion: usher.dev/v1alpha1\nkind: ObjectPolicy\nspec:\n  matchConstraints:\n    resourceRules:\n    - apiGroups: [apps]\n      resources: [│", []string{"deployments", "deployments/scale"}, []string{"pods"}},
		{"a variable", head + "  validations:\n  - expression: o│\n", []string{"object", "oldObject"}, nil},
		{"a field of the object", head + "  validations:\n  - expression: object.spec.│\n", []string{"hostNetwork", "containers"}, []string{"replicas", "object"}},
		{"a field with a beginning", head + "  validations:\n  - expression: has(object.spec.hostN│) && true\n", []string{"hostNetwork"}, []string{"containers"}},
		{"a field behind an optional one", head + "  validations:\n  - expression: object.?spec.?│\n", []string{"hostNetwork"}, nil},
		{"a field in quotation marks that do not close", head + "  validations:\n  - expression: \"object.metadata.│\n    message: a\n", []string{"labels"}, nil},
		{"in a block", head + "  validations:\n  - expression: |-\n      has(object.spec) &&\n      object.spec.│\n    message: a\n", []string{"hostNetwork"}, nil},
		{"in brackets", head + "  validations: [{expression: object.spec.│}]\n", []string{"hostNetwork"}, nil},
		{"an element of a list", head + "  validations:\n  - expression: object.spec.containers[0].│\n", []string{"image"}, nil},
		{"a loop", head + "  validations:\n  - expression: object.spec.containers.all(c, c.│\n", []string{"image", "ports"}, []string{"spec"}},
		{"a loop in a loop", head + "  validations:\n  - expression: object.spec.containers.all(c, c.ports.exists(p, p.│))\n", []string{"hostPort"}, []string{"image"}},
		{"the names of loops", head + "  validations:\n  - expression: object.spec.containers.all(cont, con│\n", []string{"cont"}, nil},
		{"a loop with an index", head + "  validations:\n  - expression: object.spec.containers.all(i, c, c.│\n", []string{"image"}, nil},
		{"a variable of the policy", head + "  validations:\n  - expression: variables.│\n", []string{"containers"}, nil},
		{"the type of a variable", head + "  validations:\n  - expression: variables.containers[0].│\n", []string{"image"}, nil},
		{"a variable reads those before", strings.Replace(head, "object.spec.containers", "variables.│", 1), nil, []string{"containers"}},
		{"params", head + "  validations:\n  - expression: params.│\n", []string{"data"}, nil},
		{"data", head + "  validations:\n  - expression: data.quota.spec.│\n", []string{"hard"}, nil},
		{"the request", head + "  validations:\n  - expression: request.userInfo.│\n", []string{"groups"}, nil},
		{"functions of text", head + "  validations:\n  - expression: object.metadata.name.│\n", []string{"startsWith", "matches"}, []string{"all", "isGreaterThan"}},
		{"functions of a group", head + "  validations:\n  - expression: sets.│\n", []string{"contains"}, []string{"size"}},
		{"no completion in a text", head + "  validations:\n  - expression: object.metadata.name == 'object.│'\n", nil, []string{"spec"}},
		{"a policy of Kubernetes", "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nspec:\n  │\n", []string{"validations", "matchConstraints"}, []string{"bindings"}},
		{"the second document", head + "---\napiVersion: usher.dev/v1alpha1\nkind: PolicyExemption\nspec:\n  │\n", nil, []string{"validations"}},
		{"an item of a list", "apiVersion: v1\nkind: List\nitems:\n- apiVersion: usher.dev/v1alpha1\n  kind: ObjectPolicy\n  spec:\n    │\n", []string{"validations"}, nil},
		{"another kind", "apiVersion: v1\nkind: Pod\nspec:\n  │\n", nil, []string{"validations"}},
	} {
		text, offset := cut(t, test.text)
		var labels []string
		for _, c := range service.Complete(t.Context(), text, offset) {
			labels = append(labels, c.Label)
			if c.From > offset || c.To < offset || c.To > len(text) {
				t.Errorf("%s: %s is for %d to %d, at %d", test.reason, c.Label, c.From, c.To, offset)
			}
		}
		for _, name := range test.has {
			if !slices.Contains(labels, name) {
				t.Errorf("%s: %s is not offered, only %v", test.reason, name, labels)
			}
		}
		for _, name := range test.without {
			if slices.Contains(labels, name) {
				t.Errorf("%s: %s is offered", test.reason, name)
			}
		}
	}
}

func TestHover(t *testing.T) {
	t.Parallel()
	service := assist.New(assist.Options{Types: []reflect.Type{reflect.TypeFor[corev1.Pod]()}})
	for _, test := range []struct{ reason, text, of, want string }{
		{"a key", head + "  valid│ations: []\n", "validations", "spec.validations: a list"},
		{"a key of a type of Kubernetes", strings.Replace(head, "resourceRules", "resource│Rules", 1), "resourceRules", "spec.matchConstraints.resourceRules: a list"},
		{"a field", head + "  validations: [{expression: object.spec.host│Network}]", "hostNetwork", "hostNetwork: bool\n```\n\nHost networking requested for this pod."},
		{"a variable", head + "  validations: [{expression: \"obj│ect.spec == null\"}]", "object", "object: object\n```\n\nThe object of the request"},
		{"a function", head + "  validations: [{expression: 'object.metadata.name.starts│With(\"\"a\"\")'}]", "startsWith", "string.startsWith(string) → bool"},
		{"a macro", head + "  validations: [{expression: 'object.spec.containers.al│l(c, true)'}]", "all", "all(…)"},
		{"the name of a loop", head + "  validations: [{expression: 'object.spec.containers.all(c, │c.image == \"\"a\"\")'}]", "c", "c: Container"},
		{"a value", head + "  failurePolicy: Fa│il\n", "", ""},
		{"no policy", "a: 1│\n", "", ""},
		{"an unknown key", head + "  typ│o: 1\n", "", ""},
	} {
		text, offset := cut(t, test.text)
		hover, ok := service.Hover(t.Context(), text, offset)
		if ok != (test.want != "") || !strings.Contains(hover.Text, test.want) {
			t.Errorf("%s: %q, want %q", test.reason, hover.Text, test.want)
		}
		if got := text[hover.From:hover.To]; got != test.of {
			t.Errorf("%s: for %q, want %q", test.reason, got, test.of)
		}
	}
}
