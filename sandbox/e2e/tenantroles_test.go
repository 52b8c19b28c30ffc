package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/usher-dev/usher/sandbox"
)

// howTo returns the Role and the policy of docs/object-policies/tenants.md, in a namespace.
func howTo(t *testing.T, namespace string) (role, policy *unstructured.Unstructured) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "object-policies", "tenants.md"))
	if err != nil {
		t.Fatal(err)
	}
	for i, block := range strings.Split(string(text), "\n```yaml\n") {
		if i == 0 {
			continue
		}
		content, _, _ := strings.Cut(block, "\n```\n")
		switch object := documents(t, []byte(content))[0]; object.GetKind() {
		case "Role":
			role = object
		case "ObjectPolicy":
			policy = object
		}
	}
	role.SetNamespace(namespace)
	policy.SetNamespace(namespace)
	return role, policy
}

// TestTenantRoles has users with the roles of Kubernetes, and what the chart adds to them, write
// policies and exemptions in their namespace, each with the answer that they get.
func TestTenantRoles(t *testing.T) {
	t.Parallel()
	r := newRig(t, sandbox.Options{Exclusive: true})
	r.serve(t)
	namespace := r.Namespace(t)
	for _, object := range documents(t, chart(t, "--set", "tenants.aggregateRoles=true")) {
		if strings.HasPrefix(object.GetName(), "usher-policies-") {
			r.create(t, object)
		}
	}
	users := map[string]*rig{}
	for user, role := range map[string]string{"vera": "view", "eve": "edit", "ada": "admin"} {
		users[user] = r.as(t, user)
		r.create(t, parse(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: %[1]s, namespace: %[2]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[3]s}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %[1]s}]
`, user, namespace, role))
	}
	role, policy := howTo(t, namespace)
	users["tim"] = r.as(t, "tim")
	r.create(t, role)
	r.create(t, parse(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tim, namespace: %s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %s}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tim}]
`, namespace, role.GetName()))
	about := func(kind, group, resource string) *unstructured.Unstructured {
		return parse(t, `
apiVersion: usher.dev/v1alpha1
kind: %s
metadata: {name: own, namespace: %s}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [%q], apiVersions: [v1], operations: [CREATE], resources: [%s]}]}
  validations: [{expression: object.metadata.name != 'none', message: none}]
`, kind, namespace, group, resource)
	}
	exemption := func(kind, name string) *unstructured.Unstructured {
		return parse(t, `
apiVersion: usher.dev/v1alpha1
kind: PolicyExemption
metadata: {name: own, namespace: %s}
spec: {policyRefs: [{kind: %s, name: %s}], reason: a test, owner: eve, expiresAt: %q}
`, namespace, kind, name, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	}
	access := parse(t, `
apiVersion: usher.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: own, namespace: %s}
spec: {effect: Allow, subjects: [{users: [eve]}], rules: [{verbs: [get], apiGroups: [""], resources: [configmaps]}]}
`, namespace)
	for _, test := range []struct {
		reason, user string
		object       *unstructured.Unstructured
		told         string
	}{
		{"who may view writes nothing", "vera", about("ObjectPolicy", "apps", "deployments"), `cannot create resource "objectpolicies"`},
		{"who may edit writes policies of what they may edit", "eve", about("ObjectPolicy", "apps", "deployments"), ""},
		{"and no others", "eve", about("ObjectPolicy", "", "resourcequotas"), "eve does not have"},
		{"nor of the cluster", "eve", about("ClusterObjectPolicy", "apps", "deployments"), `cannot create resource "clusterobjectpolicies"`},
		{"who has the Role of the how-to writes its policy", "tim", policy, ""},
		{"and no other", "tim", about("ObjectPolicy", "", "configmaps"), "permission to create configmaps"},
		{"they exempt from policies of the namespace", "eve", exemption("ObjectPolicy", "own"), ""},
		{"and from policies of the cluster with the verb only", "eve", exemption("ClusterObjectPolicy", "own"), "permission to exempt clusterobjectpolicies.usher.dev own"},
		{"they do not say who may do what", "eve", access, `cannot create resource "authorizationpolicies"`},
		{"administrators of the namespace do", "ada", access, ""},
	} {
		if test.object.GetKind() == "ClusterObjectPolicy" {
			test.object.SetNamespace("")
		}
		eventually(t, test.reason, func() error {
			_, err := users[test.user].try(testContext(t), test.object)
			if test.told != "" && err != nil && strings.Contains(err.Error(), test.told) {
				return nil
			}
			if test.told != "" {
				return wantDenied(err, test.told)
			}
			return err
		})
	}
	eventually(t, "who may view reads", func() error {
		client, err := users["vera"].of(about("ObjectPolicy", "apps", "deployments"))
		if err != nil {
			return err
		}
		_, err = client.List(testContext(t), metav1.ListOptions{})
		return err
	})
}
