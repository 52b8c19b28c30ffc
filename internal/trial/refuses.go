package trial

import (
	"context"
	"fmt"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
)

// refusesAll warns of a policy that refuses every request that it selects, or every one with an operation, whatever
// is in it, by anyone. One that says who may nevertheless, or for which objects it is, is meant.
func refusesAll(ctx context.Context, c *compile.Compiled) []rule.Problem {
	var fields []string
	refused := map[string][]string{}
	operations := operationsOfPolicy(c)
	for _, operation := range operations {
		field, ok := c.RefusesAll(ctx, operation)
		if !ok {
			continue
		}
		if refused[field] == nil {
			fields = append(fields, field)
		}
		refused[field] = append(refused[field], string(operation))
	}
	var problems []rule.Problem
	for _, field := range fields {
		on, which := "", "every request"
		if some := refused[field]; len(some) < len(operations) {
			on, which = " on "+strings.Join(some, " and "), "every "+strings.Join(some, " and ")
		}
		p := rule.Problem{Severity: rule.Warning, Field: field, What: fmt.Sprintf("it is always false%s: the policy refuses %s that it selects", on, which)}
		if p.Do = "write what is accepted, or in spec.excludeSubjects who may"; c.Object == nil {
			p.What = fmt.Sprintf("the rule refuses %s that it selects, whatever is in it", which)
			if p.Do = "write what is accepted, or select fewer objects"; on == "" {
				p.Do += "; with targetOperations: [CREATE], those that exist can be changed and deleted"
			}
		}
		problems = append(problems, p)
	}
	return problems
}

// operationsOfPolicy returns the operations that a policy is for.
func operationsOfPolicy(c *compile.Compiled) []usher.Operation {
	var all []usher.Operation
	if typed := c.Typed(); typed != nil {
		all = operationsIn(typed.Matches())
	}
	if len(all) == 0 {
		return []usher.Operation{usher.Create, usher.Update, usher.Delete}
	}
	return all
}
