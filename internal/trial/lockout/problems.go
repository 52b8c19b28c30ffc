package lockout

import (
	"fmt"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
)

// recovery is said of the requests.
const recovery = "without which a cluster cannot recover"

// Is reports whether what is said of a problem is that a policy refuses such requests.
func Is(what string) bool {
	return strings.Contains(what, recovery) && (strings.HasPrefix(what, verb(Refused)) || strings.HasPrefix(what, verb(Failed)))
}

// Problems returns what to tell the author of a policy: one problem for each rule and each effect, about
// the requests that reach a door.
func Problems(findings []Finding) []rule.Problem {
	type part struct {
		rule   string
		effect Effect
	}
	groups := map[part][]Finding{}
	var order []part
	for i := range findings {
		if f := &findings[i]; f.Unreached == "" {
			key := part{f.Rule, f.Effect}
			if groups[key] == nil {
				order = append(order, key)
			}
			groups[key] = append(groups[key], *f)
		}
	}
	var problems []rule.Problem
	for _, key := range order {
		some := groups[key]
		first := &some[0]
		p := rule.Problem{
			Policy: first.Policy, Severity: rule.Error, Field: key.rule,
			What: fmt.Sprintf("%s %s%s", verb(key.effect), about(some), first.What),
			Do:   remedy(first.Policy) + where(some),
		}
		switch key.effect {
		case Changed:
			p.Severity = rule.Warning
		case Refused, Failed:
			if first.Message != "" {
				p.What += fmt.Sprintf(" (%s)", short(first.Message))
			}
		}
		problems = append(problems, p)
	}
	return problems
}

func verb(e Effect) string {
	switch e {
	case Failed:
		return "the rule fails on, and so refuses,"
	case Changed:
		return "the rule changes the spec in"
	case Refused:
	}
	return "the rule refuses"
}

// about returns what findings have in common, before the first of them. The policy of a team is about the
// namespace of the team: a cluster can recover without, but not this namespace.
func about(some []Finding) string {
	policy, which, samples := some[0].Policy, recovery+": "+topics(some), ", the first of these samples: "
	if at := some[0].Namespace; at != "" {
		samples += "in namespace " + at + ", "
	}
	if kind, _ := api.KindCalled(policy.Kind); kind.Namespaced && policy.Namespace != "kube-system" {
		which, samples = fmt.Sprintf("in %s that Kubernetes and its administrators depend on", policy.Namespace), ", such as: "
		if len(some) == 1 {
			samples = ": "
		}
	}
	if len(some) == 1 {
		return "a request " + which + samples
	}
	return fmt.Sprintf("%d requests %s%s", len(some), which, samples)
}

// where says what the namespaces of add-ons in findings are called in a cluster. For a policy of a namespace they are its
// own.
func where(some []Finding) string {
	if some[0].Policy.Namespace != "" {
		return ""
	}
	var names []string
	for i := range some {
		if name := some[i].Namespace; slices.Contains(addons, name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	switch len(names) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf(" (%s is the namespace of the sample: in your cluster, %s)", names[0], meant)
	}
	return fmt.Sprintf(" (%s are the namespaces of the samples: in your cluster, %s)", printable.List(names, "and"), meant)
}

// meant says which namespaces of a cluster those of the samples are.
const meant = "those of its CNI, CSI, DNS and other add-ons, which usher check --infrastructure-namespaces names: docs/checking.md#lock-out"

// topics returns the groups of findings with how many there are of each.
func topics(findings []Finding) string {
	counts := map[string]int{}
	var groups []string
	for i := range findings {
		if counts[findings[i].Group]++; counts[findings[i].Group] == 1 {
			groups = append(groups, findings[i].Group)
		}
	}
	if len(groups) == 1 {
		return groups[0]
	}
	texts := make([]string, len(groups))
	for i, group := range groups {
		texts[i] = fmt.Sprintf("%s %d", group, counts[group])
	}
	return strings.Join(texts, ", ")
}

// remedy says how a policy of a kind leaves out requests.
func remedy(p usher.PolicyRef) string {
	switch kind, _ := api.KindCalled(p.Kind); {
	case kind.ObjectPolicy && kind.Namespaced:
		return "exclude them with excludeSubjects, matchConstraints.objectSelector or matchConditions"
	case kind.Namespaced:
		return "select fewer objects"
	case kind.Foreign:
		return "exclude them with matchConstraints.namespaceSelector, excludeResourceRules or matchConditions"
	case kind.ObjectPolicy:
		return "exclude them with matchConstraints.namespaceSelector, excludeSubjects or a ClusterPolicyExemption"
	}
	return "select fewer objects, or exclude namespaces with --webhook-namespace-selector"
}

// longest limits the length of a message in a problem.
const longest = 160

func short(message string) string {
	return printable.Cut(printable.Words(message), longest)
}
