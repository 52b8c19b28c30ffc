package authz

import (
	"slices"
	"strings"

	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"

	"github.com/usher-dev/usher/internal/rule/authz"
)

// Limits of the generated conditions. Above them conditions are less precise, until nothing is
// left.
const (
	maxClauses    = 64
	maxExpression = 16 << 10
)

// ControlPlane are the users and groups that are never sent to the webhook that denies: what keeps
// a cluster running must not wait. The first are users, the others groups.
var (
	controlPlaneUsers  = []string{"system:apiserver", "system:kube-controller-manager", "system:kube-scheduler"}
	controlPlaneGroups = []string{"system:masters", "system:nodes", "system:serviceaccounts:kube-system"}
)

// conditions say which requests are sent to the webhook that denies: all of these have to hold.
func (o Options) conditions() []apiserverv1.WebhookMatchCondition {
	users := controlPlaneUsers
	if o.Self != "" {
		users = append(slices.Clone(users), o.Self)
	}
	expressions := []string{"!(request.user in " + list(users) + ")"}
	for _, group := range controlPlaneGroups {
		expressions = append(expressions, "!("+quote(group)+" in request.groups)")
	}
	if !o.Any {
		if target := Target(o.Rules); target != "" {
			expressions = append(expressions, target)
		}
	}
	all := make([]apiserverv1.WebhookMatchCondition, len(expressions))
	for i, expression := range expressions {
		all[i].Expression = expression
	}
	return all
}

// Target is a CEL expression that holds for every request that a Deny among rules may match, and
// for few others; empty if it would be too long. It only uses attributes: it cannot fail.
func Target(rules []*authz.Rule) string {
	var denying []*authz.Rule
	for _, r := range rules {
		if r.Policy.Effect == authz.Deny {
			denying = append(denying, r)
		}
	}
	for _, detail := range []detail{exact, coarse} {
		resources, paths := clausesOf(denying, detail)
		text := "has(request.resourceAttributes) ? " + anyOf(resources) + " : " + anyOf(paths)
		if len(resources)+len(paths) <= maxClauses && len(text) <= maxExpression {
			return text
		}
	}
	return ""
}

// A detail is how much of each rule the expression includes.
type detail int

const (
	// exact is about users, verbs, resources, namespaces and names.
	exact detail = iota
	// coarse is about API groups only.
	coarse
)

func clausesOf(rules []*authz.Rule, d detail) (resources, paths []string) {
	add := func(to *[]string, clause string) {
		if !slices.Contains(*to, clause) {
			*to = append(*to, clause)
		}
	}
	for _, r := range rules {
		if r.URLs != nil {
			add(&paths, pathClause(r, d))
		} else {
			add(&resources, resourceClause(r, d))
		}
	}
	return resources, paths
}

func resourceClause(r *authz.Rule, d detail) string {
	const a = "request.resourceAttributes."
	clauses := []string{member(a+"group", &r.Groups)}
	if d == exact {
		clauses = append(clauses, subjects(r.Policy.Subjects), member(a+"verb", &r.Verbs), resources(a+"resource", r.Resources),
			member(a+"namespace", &r.Namespaces, ""), member(a+"name", &r.Names, ""))
	}
	return allOf(clauses)
}

func pathClause(r *authz.Rule, d detail) string {
	const a = "request.nonResourceAttributes."
	if d == coarse {
		return "true"
	}
	return allOf([]string{subjects(r.Policy.Subjects), member(a+"verb", &r.Verbs), member(a+"path", r.URLs)})
}

// member is a condition that an attribute is in a set, or means all values; empty if it always may
// be. More are other texts that mean all values.
func member(attribute string, s *authz.Set, more ...string) string {
	if s.Any {
		return ""
	}
	texts := append(slices.Clone(more), "*")
	var clauses []string
	for _, p := range s.Patterns {
		switch {
		case p.Template != nil || p.Star && p.Prefix == "" && p.Suffix == "":
			return ""
		case !p.Star:
			texts = append(texts, p.Prefix)
		case p.Prefix != "":
			clauses = append(clauses, attribute+".startsWith("+quote(p.Prefix)+")")
		default:
			clauses = append(clauses, attribute+".endsWith("+quote(p.Suffix)+")")
		}
	}
	return anyOf(append([]string{attribute + " in " + list(texts)}, clauses...))
}

// resources is a condition that an attribute is one of the resources, with any subresource.
func resources(attribute string, all []authz.Resource) string {
	texts := []string{"*"}
	for _, r := range all {
		if r.Every || r.Name == "*" {
			return ""
		}
		texts = append(texts, r.Name)
	}
	return attribute + " in " + list(texts)
}

// subjects is a condition that the user is one of them; empty if any user may be.
func subjects(all []authz.Subject) string {
	var users, groups []string
	for _, s := range all {
		for _, p := range s.Users {
			if p.Star || p.Template != nil {
				return ""
			}
			users = append(users, p.Prefix)
		}
		for _, p := range s.Groups {
			if p.Star || p.Template != nil {
				return ""
			}
			groups = append(groups, p.Prefix)
		}
		for _, a := range s.ServiceAccounts {
			switch {
			case a.Namespace.Star || a.Namespace.Template != nil || a.Name.Template != nil:
				return ""
			case a.Name.Star:
				// A user with such a name is a service account, in any groups.
				return ""
			}
			users = append(users, "system:serviceaccount:"+a.Namespace.Prefix+":"+a.Name.Prefix)
		}
	}
	var clauses []string
	if len(users) > 0 {
		clauses = append(clauses, "request.user in "+list(users))
	}
	for _, group := range groups {
		clauses = append(clauses, quote(group)+" in request.groups")
	}
	return anyOf(clauses)
}

func allOf(clauses []string) string {
	clauses = slices.DeleteFunc(clauses, func(clause string) bool { return clause == "" })
	if len(clauses) == 0 {
		return "true"
	}
	return strings.Join(clauses, " && ")
}

// anyOf is false if there is nothing that could hold.
func anyOf(clauses []string) string {
	switch {
	case len(clauses) == 0:
		return "false"
	case slices.Contains(clauses, "true"):
		return "true"
	case len(clauses) == 1:
		return clauses[0]
	}
	return "(" + strings.Join(clauses, " || ") + ")"
}

// list is a list of strings in CEL, sorted, each once.
func list(texts []string) string {
	sorted := slices.Clone(texts)
	slices.Sort(sorted)
	var quoted []string
	for _, text := range slices.Compact(sorted) {
		quoted = append(quoted, quote(text))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// quote is a string in CEL.
func quote(text string) string {
	var b strings.Builder
	b.WriteByte('\'')
	for _, r := range text {
		switch {
		case r == '\'' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ':
			b.WriteString(`\x` + string("0123456789abcdef"[r>>4]) + string("0123456789abcdef"[r&15]))
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('\'')
	return b.String()
}
