package policytest

import (
	"fmt"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
)

// parted is the field of validations whose answers one rule has.
const parted = "spec.validations"

// kindOf returns the kind of a policy.
func kindOf(policy map[string]any) api.Kind {
	name, _ := policy["kind"].(string)
	kind, _ := api.KindCalled(name)
	return kind
}

// A parts counts what cases exercise of the conditions and validations of an admission policy of
// Kubernetes, or of an object policy. A validation is exercised by a case that it denies and one that it lets pass, a
// condition by a case that it keeps out and one that it does not.
type parts struct {
	// validations are the names of the validations; empty for those without.
	validations []string
	conditions  []string
	held        map[string]bool
	failed      map[string]bool
}

func newParts(policy map[string]any) *parts {
	m := &mutator{policy: policy}
	p := &parts{held: map[string]bool{}, failed: map[string]bool{}}
	if kindOf(policy).Validations == parted {
		for i, v := range m.list("spec", "validations") {
			name, _ := v["name"].(string)
			p.validations = append(p.validations, name)
			// One that is always false cannot let a request pass.
			text, _ := v["expression"].(string)
			p.held[validationName(i)] = strings.TrimSpace(text) == "false"
		}
	}
	for _, c := range m.list("spec", "matchConditions") {
		name, _ := c["name"].(string)
		p.conditions = append(p.conditions, name)
	}
	return p
}

// note notes what a rule of the policy has said.
func (p *parts) note(f *usher.Finding) {
	if f.Outcome == usher.Skipped {
		if f.Condition != "" {
			p.failed[f.Condition] = true
		}
		return
	}
	for _, name := range p.conditions {
		p.held[name] = true
	}
	if f.Rule == mutationsRule {
		return
	}
	for i := range p.validations {
		name := validationName(i)
		denied := slices.ContainsFunc(f.Checks, func(c usher.Check) bool { return c.Name == name && (!c.Failed || len(c.Actions) > 0) })
		p.failed[name] = p.failed[name] || denied
		p.held[name] = p.held[name] || !denied
	}
}

// mutationsRule is the rule of an object policy that evaluates no validations.
const mutationsRule = "spec.mutations"

func validationName(i int) string { return fmt.Sprintf("spec.validations[%d]", i) }

// count adds the parts to a coverage.
func (p *parts) count(ref usher.PolicyRef, c *Coverage) {
	for i, name := range p.validations {
		told := validationName(i)
		if name != "" {
			told += " (" + name + ")"
		}
		p.part(ref, validationName(i), told, [2]string{"denies no case", "denies every case"}, c)
	}
	for i, name := range p.conditions {
		p.part(ref, name, fmt.Sprintf("spec.matchConditions[%d]", i), [2]string{"keeps no case out", "keeps every case out"}, c)
	}
}

func (p *parts) part(ref usher.PolicyRef, key, name string, words [2]string, c *Coverage) {
	c.Conditions.count(p.held[key] && p.failed[key])
	if !p.failed[key] {
		c.Missing = append(c.Missing, fmt.Sprintf("%s %s: %s", ref, name, words[0]))
	}
	if !p.held[key] {
		c.Missing = append(c.Missing, fmt.Sprintf("%s %s: %s", ref, name, words[1]))
	}
}
