package main

import (
	"fmt"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/compile"
	"github.com/usher-dev/usher/compile/guard"
	"github.com/usher-dev/usher/engine"
	"github.com/usher-dev/usher/fact"
	facthttp "github.com/usher-dev/usher/fact/http"
	"github.com/usher-dev/usher/index"
	"github.com/usher-dev/usher/rule"
)

// A policySet is policies without errors, compiled.
type policySet struct{ rules []rule.Rule }

// usablePolicies loads policies, and tells the errors in them if there are any.
func usablePolicies(s streams, paths []string) (policySet, error) {
	set, err := loadPolicies(paths)
	if err != nil {
		return policySet{}, err
	}
	if errs := rule.Errors(problemsOf(set)); len(errs) > 0 {
		for _, p := range errs {
			fmt.Fprintln(s.err, p)
		}
		return policySet{}, fmt.Errorf("%s in the policies: correct them first, see 'usher check'", count(len(errs), "error", "errors"))
	}
	rules, _ := compile.Policies(set.Policies)
	return policySet{rules}, nil
}

// decider decides by the policies, and about policies.
func (p policySet) decider(facts fact.Resolver) usher.Decider {
	return guard.Wrap(engine.New(index.New(p.rules), facts, engine.Options{FailurePolicy: engine.Fail}), guard.Options{})
}

func httpFacts(local bool) fact.Resolver { return facthttp.New(facthttp.Options{AllowLocal: local}) }
