package rule

import usher "github.com/usher-dev/usher"

// Dependencies are the parts of requests, besides their objects, on which the outcome of a program
// depends, and the facts that it may ask for. It may always depend on the operation, the kind and
// the resource, and on whether there is a namespace.
type Dependencies uint16

// The parts of requests and the kinds of facts.
const (
	OnUser Dependencies = 1 << iota
	// OnExcluded is on whether the user is one of those for whom the policy is not. For all others the
	// outcome is the same.
	OnExcluded
	OnOptions
	OnDryRun
	OnName
	OnNamespace
	// OnAccess are questions to authorizers, OnHTTP requests to services, and OnObjects other
	// objects of the cluster.
	OnAccess
	OnHTTP
	OnObjects
)

const (
	// OnAnything are all dependencies.
	OnAnything = OnUser | OnExcluded | OnOptions | OnDryRun | OnName | OnNamespace | OnFacts
	// OnFacts are those on facts of any kind.
	OnFacts = OnAccess | OnHTTP | OnObjects
)

// Any reports whether some of other are among the dependencies.
func (d Dependencies) Any(other Dependencies) bool { return d&other != 0 }

// A Dependent is a [Program] that says on what its outcome depends. Other programs may depend on
// anything.
type Dependent interface {
	Program
	// DependsOn returns the dependencies of the outcome for requests with an operation.
	DependsOn(operation usher.Operation) Dependencies
}

// DependenciesOf returns on what the outcome of a program depends for requests with an operation; a
// nil program depends on nothing.
func DependenciesOf(p Program, operation usher.Operation) Dependencies {
	switch dependent, ok := p.(Dependent); {
	case p == nil:
		return 0
	case ok:
		return dependent.DependsOn(operation)
	}
	return OnAnything
}

// DependsOn returns on what the outcome of the rule depends for requests with an operation, and on
// what it depends whether the rule is for them. Exemptions do not count.
func (r *Rule) DependsOn(operation usher.Operation) Dependencies {
	all := r.Match.dependsOn()
	for i := range r.Steps {
		all |= DependenciesOf(r.Steps[i].Program, operation)
	}
	return all
}

// dependsOn returns what a match reads of requests: selectors are about objects.
func (m *Match) dependsOn() Dependencies {
	var all Dependencies
	for i := range m.Resources {
		all |= m.Resources[i].DependsOn()
	}
	return all
}

// DependsOn returns what the match reads of requests.
func (m *ResourceMatch) DependsOn() Dependencies {
	for _, rules := range [][]ResourceRule{m.Rules, m.Excluded} {
		for i := range rules {
			if len(rules[i].Names) > 0 {
				return OnName
			}
		}
	}
	return 0
}
