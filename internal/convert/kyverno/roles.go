package kyverno

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

// namesRoles returns an error if blocks name roles, and the policy cannot read the bindings of other namespaces or of the cluster.
func namesRoles(c *conversion, blocks []syntax.Block) error {
	for n := range blocks {
		b := &blocks[n]
		if len(b.Roles)+len(b.ClusterRoles) == 0 {
			continue
		}
		if c.p.Kind == "Policy" {
			return refuse(b.Field, "it names roles, whose bindings a policy of a namespace does not read", "name the subjects of the bindings")
		}
		c.note(b.Field, "the roles of the user are those of the bindings that Usher reads: it needs the right to read them, and more than 1,000 in one list are an error", "name the subjects of the bindings")
	}
	return nil
}

// excluded adds a condition that none of some blocks holds.
func excluded(c *conversion, s *selection, blocks []syntax.Block, targets [][]target) error {
	if err := namesRoles(c, blocks); err != nil {
		return err
	}
	return s.condition("exclude", blocks, targets, true)
}

// reading returns the value of a list in the data of the policy.
func (s *selection) reading(name string, of *v1alpha1.DataList) string {
	return adding(&s.data, v1alpha1.DataSource{Name: name, List: of})
}

// roles returns a term that holds if the user has one of the roles that a block names, as Kyverno finds them: by all bindings
// of roles, by those of cluster roles in the cluster, and in the namespace of the request.
func (s *selection) roles(b *syntax.Block) term {
	roles, clusterRoles := no, no
	bindings := func(kind string) *v1alpha1.DataList {
		return &v1alpha1.DataList{APIVersion: "rbac.authorization.k8s.io/v1", Kind: kind}
	}
	if len(b.ClusterRoles) > 0 {
		clusterRoles = some(bound(s.reading("clusterRoleBindings", bindings("ClusterRoleBinding")), "ClusterRole", "''", b.ClusterRoles),
			all(compare("request.?namespace.orValue('')", "!=", "''"), bound(s.reading("roleBindings", bindings("RoleBinding")), "ClusterRole", "b.metadata.namespace", b.ClusterRoles)))
	}
	var namespaces []string
	names := map[string][]string{}
	for _, text := range b.Roles {
		namespace, name, _ := strings.Cut(text, ":")
		if name == "" || len(validation.IsDNS1123Label(namespace)) > 0 {
			continue
		}
		if names[namespace] == nil {
			namespaces = append(namespaces, namespace)
		}
		names[namespace] = append(names[namespace], name)
	}
	for _, namespace := range namespaces {
		in := bindings("RoleBinding")
		in.Namespace = namespace
		roles = some(roles, bound(s.reading("roleBindings", in), "Role", "b.metadata.namespace", names[namespace]))
	}
	if len(b.Roles) == 0 {
		return clusterRoles
	}
	if len(b.ClusterRoles) == 0 {
		return roles
	}
	return all(roles, clusterRoles)
}

// bound returns a term that holds if one of some bindings gives one of some roles to the user. Service accounts without a
// namespace are in the one that namespace is in CEL.
func bound(bindings, kind, namespace string, names []string) term {
	user := "request.userInfo.?username.orValue('')"
	account := all(compare("s.kind", "==", "'ServiceAccount'"), compare("'system:serviceaccount:' + s.?namespace.orValue("+namespace+") + ':' + s.name", "==", user))
	if namespace == "''" {
		account = all(call("s.?namespace.hasValue()"), account)
	}
	subject := some(all(compare("s.kind", "==", "'User'"), compare("s.name", "==", user)),
		all(compare("s.kind", "==", "'Group'"), compare("s.name", "in", "request.userInfo.?groups.orValue([])")), account)
	return call(bindings + ".exists(b, " + all(compare("b.roleRef.kind", "==", convert.Quote(kind)), in("b.roleRef.name", names), call("b.?subjects.orValue([]).exists(s, "+subject.text+")")).text + ")")
}
