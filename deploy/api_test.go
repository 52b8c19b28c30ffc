package deploy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/delegated"
)

// rightsIn lists what every role of a rendering allows, and what is bound to roles of Kubernetes.
func rightsIn(objects []runtime.Object) []string {
	var rights []string
	add := func(kind string, rules []rbacv1.PolicyRule) {
		for _, rule := range rules {
			rights = append(rights, fmt.Sprintf("%s %v%v%v%v", kind, rule.APIGroups, rule.Resources, rule.ResourceNames, rule.Verbs))
		}
	}
	var own []string
	for _, role := range only[*rbacv1.ClusterRole](objects) {
		own = append(own, role.Name)
		kind := "ClusterRole"
		for label := range role.Labels {
			if to, ok := strings.CutPrefix(label, "rbac.authorization.k8s.io/aggregate-to-"); ok {
				kind = to
			}
		}
		add(kind, role.Rules)
	}
	for _, role := range only[*rbacv1.Role](objects) {
		own = append(own, role.Name)
		add("Role in "+role.Namespace, role.Rules)
	}
	for _, binding := range only[*rbacv1.RoleBinding](objects) {
		if !slices.Contains(own, binding.RoleRef.Name) {
			rights = append(rights, "Role in "+binding.Namespace+": "+binding.RoleRef.Name)
		}
	}
	return rights
}

// What tenants may do is granted only if values say so. Nobody gets rights on policies of the cluster.
func TestTenants(t *testing.T) {
	t.Parallel()
	without := rightsIn(renderings[0].objects(t))
	more := slices.DeleteFunc(rightsIn((&rendering{args: []string{"--set", "tenants.aggregateRoles=true"}}).objects(t)), func(right string) bool {
		return slices.Contains(without, right)
	})
	slices.Sort(more)
	const write = "[create update patch delete deletecollection]"
	want := []string{
		"Role in usher-system [][pods/portforward][][create]",
		"Role in usher-system [][pods][][list]",
		"admin [usher.dev][authorizationpolicies][][get list watch create update patch delete deletecollection]",
		"edit [policy.kcloudlabs.io][overridepolicies][]" + write,
		"edit [policy.kcloudlabs.io][overridepolicies][][exempt]",
		"edit [usher.dev][decisions candidatedecisions][][get list watch]",
		"edit [usher.dev][objectpolicies policycandidates policyexemptions][]" + write,
		"edit [usher.dev][objectpolicies][][exempt]",
		"view [policy.kcloudlabs.io][overridepolicies][][get list watch]",
		"view [usher.dev][auditresults][][get list watch]",
		"view [usher.dev][objectpolicies policycandidates policyexemptions][][get list watch]",
	}
	if diff := cmp.Diff(want, more); diff != "" {
		t.Errorf("rights besides those of the default (-want +got):\n%s", diff)
	}
	for _, set := range []string{"api.enabled=true", "api.aggregateRoles=false"} {
		served := rightsIn((&rendering{args: []string{"--set", "tenants.aggregateRoles=true", "--set", set}}).objects(t))
		for _, right := range []string{"edit [usher.dev][decisions candidatedecisions][][get list watch]", "view [usher.dev][auditresults][][get list watch]"} {
			if granted := strings.Count(strings.Join(served, "\n"), right); granted != 0 && set != "api.enabled=true" || granted > 1 {
				t.Errorf("with %s, %d roles have %s", set, granted, right)
			}
		}
	}
	for _, kind := range api.Kinds() {
		granted := strings.Contains(strings.Join(more, "\n"), kind.Resource)
		if kind.Namespaced != granted {
			t.Errorf("%s: namespaced is %v, granted to tenants is %v", kind.Kind, kind.Namespaced, granted)
		}
	}
}

// TestValuesForTenants: the chart takes the values that docs/install.md has to copy, and they are in force.
func TestValuesForTenants(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)<!-- file: try/tenants\\.yaml -->\n```yaml\n(.*?)```").FindSubmatch(document)
	if block == nil {
		t.Fatal("docs/install.md has no try/tenants.yaml")
	}
	file := filepath.Join(t.TempDir(), "tenants.yaml")
	if err := os.WriteFile(file, block[1], 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := template(t, "--values", file)
	if err != nil {
		t.Fatalf("helm template: %v\n%s", err, text)
	}
	for _, want := range []string{
		"--webhook-failure-policy=Fail", "kubernetes.io/metadata.name notin (kube-system)", "--api-address=", "--http-facts=off",
		"kind: PrometheusRule", "kind: ServiceMonitor", "cidr: 10.0.0.0/28", "aggregate-to-edit",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in what the chart makes of them", want)
		}
	}
}

// What is refused is recorded only if values say so, and with the API, at which it is read.
func TestRecordings(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ set, want string }{
		{"api.enabled=true", ""},
		{"api.enabled=true,api.recordMemory=16Mi", "--record-memory=16Mi"},
		{"api.enabled=true,api.recordMemory=1Gi", "--record-memory=1Gi"},
	} {
		got := ""
		for _, arg := range one[*appsv1.Deployment](t, (&rendering{args: []string{"--set", row.set}}).objects(t)).Spec.Template.Spec.Containers[0].Args {
			if strings.HasPrefix(arg, "--record-memory") {
				got = arg
			}
		}
		if got != row.want {
			t.Errorf("%s: got %q, want %q", row.set, got, row.want)
		}
	}
}

// The API takes rights that nothing else needs, so only who asks for it gives them. Every
// resource is granted to one role.
func TestAPI(t *testing.T) {
	t.Parallel()
	asks := []string{
		"Role in kube-system: extension-apiserver-authentication-reader",
	}
	roles := []string{
		"view [usher.dev][auditresults][][get list watch]",
		"edit [usher.dev][decisions][][get list watch]",
		"edit [usher.dev][candidatedecisions][][get list watch]",
		"admin [usher.dev][recordings][][get list watch]",
	}
	if len(roles) != len(delegated.Resources()) {
		t.Errorf("the resources are %v: say who may read each", delegated.Resources())
	}
	for _, row := range []struct {
		set    string
		serves bool
		want   []string
	}{
		{"", false, nil},
		{"api.enabled=true,api.aggregateRoles=false", true, asks},
		{"api.enabled=true", true, slices.Concat(asks, roles)},
	} {
		t.Run(row.set, func(t *testing.T) {
			t.Parallel()
			objects := renderings[0].objects(t)
			without := rightsIn(objects)
			if row.set != "" {
				objects = (&rendering{args: []string{"--set", row.set}}).objects(t)
			}
			more := slices.DeleteFunc(rightsIn(objects), func(right string) bool { return slices.Contains(without, right) })
			slices.Sort(more)
			want := slices.Sorted(slices.Values(row.want))
			if diff := cmp.Diff(want, more, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("rights besides those of the default (-want +got):\n%s", diff)
			}
			container := one[*appsv1.Deployment](t, objects).Spec.Template.Spec.Containers[0]
			listens := slices.Contains(container.Args, "--api-address=0.0.0.0:8445")
			opens := slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.Name == "api" && p.ContainerPort == 8445 })
			leads := slices.ContainsFunc(only[*corev1.Service](objects), func(s *corev1.Service) bool {
				return slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.TargetPort.String() == "api" })
			})
			if listens != row.serves || opens != row.serves || leads != row.serves {
				t.Errorf("listens %v, opens the port %v, the Service leads there %v: want all %v", listens, opens, leads, row.serves)
			}
		})
	}
}
