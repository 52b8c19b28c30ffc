package lockout

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"

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

// Problems returns what to tell the author of a policy: one problem for each policy and effect, about the requests that
// reach a door. Its place is the first part of the policy that has the effect.
func Problems(findings []Finding) []rule.Problem {
	type group struct {
		policy usher.PolicyRef
		effect Effect
	}
	groups := map[group][]Finding{}
	var order []group
	for i := range findings {
		if f := &findings[i]; f.Unreached == "" {
			key := group{f.Policy, f.Effect}
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
		few := examples(some)
		p := rule.Problem{
			Policy: first.Policy, Severity: rule.Error, Field: first.Rule,
			What: fmt.Sprintf("%s %s: %s", verb(key.effect), about(some), listed(few, len(some))),
			Do:   remedy(first.Policy, subjects(some)) + where(few),
		}
		if first.Suspended {
			p.What = "once in force, " + p.What
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

// about says what the requests of findings are. The policy of a team is about the namespace of the team: a cluster can
// recover without them, but not this namespace.
func about(some []Finding) string {
	requests := "requests"
	if len(some) == 1 {
		requests = "a request"
	}
	if ofTeam(some[0].Policy) {
		return fmt.Sprintf("%s in %s that Kubernetes and its administrators depend on", requests, some[0].Policy.Namespace)
	}
	return requests + " " + recovery
}

func ofTeam(policy usher.PolicyRef) bool {
	kind, _ := api.KindCalled(policy.Kind)
	return kind.Namespaced && policy.Namespace != "kube-system"
}

// most limits how many requests a problem names.
const most = 3

// examples returns a few findings, of different groups if there are enough, in their order.
func examples(some []Finding) []Finding {
	var few, others []Finding
	groups := map[string]bool{}
	for i := range some {
		if groups[some[i].Group] {
			others = append(others, some[i])
			continue
		}
		groups[some[i].Group] = true
		few = append(few, some[i])
	}
	few = append(few, others...)
	return few[:min(len(few), most)]
}

// listed names the requests of findings, and how many more there are of all.
func listed(few []Finding, all int) string {
	var names []string
	for i := range few {
		name := few[i].What
		if few[i].Namespace != "" && !ofTeam(few[i].Policy) {
			name += " in " + few[i].Namespace
		}
		names = append(names, name)
	}
	if more := all - len(few); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return printable.List(names, "and")
}

// where says which namespaces in findings are those of samples. For a policy of a namespace they are its
// own.
func where(some []Finding) string {
	if some[0].Policy.Namespace != "" {
		return ""
	}
	var names []string
	for i := range some {
		if name := some[i].Namespace; slices.Contains(slices.Concat(addons, teams), name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	switch len(names) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf(" (%s is the namespace of a sample: docs/checking.md#lock-out)", names[0])
	}
	return fmt.Sprintf(" (%s are namespaces of samples: docs/checking.md#lock-out)", printable.List(names, "and"))
}

// subjects is the field that excludes who sends the requests of findings, written out if that is one ServiceAccount.
func subjects(some []Finding) string {
	const field = "excludeSubjects"
	namespace, name, err := serviceaccount.SplitUsername(some[0].User)
	if err != nil || slices.ContainsFunc(some, func(f Finding) bool { return f.User != some[0].User }) {
		return field
	}
	return fmt.Sprintf("%s: [{serviceAccounts: [%s/%s]}]", field, namespace, name)
}

// remedy says how a policy of a kind leaves out requests, by excludeSubjects as it is to be written.
func remedy(p usher.PolicyRef, excludeSubjects string) string {
	switch kind, _ := api.KindCalled(p.Kind); {
	case kind.ObjectPolicy && kind.Namespaced:
		return "exclude them with " + excludeSubjects + ", matchConstraints.objectSelector or matchConditions"
	case kind.Namespaced:
		return "select fewer objects"
	case kind.Foreign:
		return "exclude them with matchConstraints.namespaceSelector, excludeResourceRules or matchConditions"
	case kind.ObjectPolicy:
		return "exclude them by namespace with matchConstraints.namespaceSelector, by user with " + excludeSubjects + ", or with a ClusterPolicyExemption"
	}
	return "select fewer objects, or exclude namespaces with --webhook-namespace-selector"
}

// longest limits the length of a message in a problem.
const longest = 160

func short(message string) string {
	return printable.Cut(printable.Words(message), longest)
}
