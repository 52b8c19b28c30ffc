// Package authz explains decisions about requests to authorize: for each rule of an authorization policy that
// matches, its outcome, and for each that nearly does, what keeps it from it.
package authz

import (
	"fmt"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
	engine "github.com/usher-dev/usher/internal/engine/authz"
	"github.com/usher-dev/usher/internal/explain/text"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// An Explanation is one decision, rule by rule.
type Explanation struct {
	Phase usher.Phase `json:"phase"`
	// Verdict is allow, deny or no opinion.
	Verdict string `json:"verdict"`
	Message string `json:"message,omitempty"`
	Reasons
	// Passes are changes of the request, as flags of kubectl, that would change the verdict.
	Passes []string `json:"passes,omitempty"`
}

// Reasons are the rules behind a decision.
type Reasons struct {
	// Rules are those that match, NearMatches those that almost match.
	Rules       []Rule `json:"rules,omitempty"`
	NearMatches []Rule `json:"nearMatches,omitempty"`
}

// A Rule is one rule's part in a decision.
type Rule struct {
	Policy string `json:"policy"`
	Tier   string `json:"tier"`
	Effect string `json:"effect"`
	Rule   string `json:"rule"`
	// Outcome is what a rule that matches contributes to the decision.
	Outcome string `json:"outcome,omitempty"`
	// Why gives details; for a rule that almost matches, what does not match.
	Why        string   `json:"why,omitempty"`
	Conditions []string `json:"conditions,omitempty"`
}

// Of returns the explanation of an engine about a request.
func Of(r *usher.Request, x engine.Explanation) Explanation {
	return Explanation{
		Phase: usher.Authorize, Verdict: Verdict(x.Decision.Verdict), Message: x.Decision.Message,
		Reasons: ReasonsOf(x, func(authz.Effect) bool { return true }),
		Passes:  Passes(r, x, x.Decision.Verdict),
	}
}

// ReasonsOf returns the rules of policies with certain effects.
func ReasonsOf(x engine.Explanation, of func(authz.Effect) bool) Reasons {
	var reasons Reasons
	for _, step := range x.Steps {
		if !of(step.Rule.Policy.Effect) {
			continue
		}
		told := told(step.Rule)
		told.Outcome, told.Why = string(step.Outcome), step.Why
		for _, e := range step.Evaluated {
			outcome := fmt.Sprintf("%s: %t", e.Condition.Name, e.Holds)
			if e.Err != nil {
				outcome = fmt.Sprintf("%s: %v", e.Condition.Name, e.Err)
			}
			told.Conditions = append(told.Conditions, outcome)
		}
		reasons.Rules = append(reasons.Rules, told)
	}
	for _, near := range x.NearMatches {
		if of(near.Rule.Policy.Effect) {
			told := told(near.Rule)
			told.Why = near.Mismatch
			reasons.NearMatches = append(reasons.NearMatches, told)
		}
	}
	return reasons
}

func told(r *authz.Rule) Rule {
	return Rule{Policy: rule.FullName(r.Policy.Ref), Tier: r.Policy.Tier.String(), Effect: r.Policy.Effect.String(), Rule: r.Name}
}

// Verdict returns a verdict in words.
func Verdict(v usher.Verdict) string {
	if v == usher.NoOpinion {
		return "no opinion"
	}
	return string(v)
}

// Print writes an explanation, indented by two spaces. It has the texts of policies as they are: what shows it on a
// terminal replaces the characters that control it.
func (e *Explanation) Print(b *strings.Builder, p printable.Palette) {
	fmt.Fprintf(b, "  %s: %s", e.Phase, e.Verdict)
	if e.Message != "" {
		fmt.Fprintf(b, ": %s", text.Below("  ", e.Message))
	}
	b.WriteByte('\n')
	e.Reasons.Print(b, "    ", p)
	for _, hint := range e.Passes {
		fmt.Fprintf(b, "    would pass with: %s\n", text.Below("    ", hint))
	}
}

// Print writes a line for each rule, and for each of its conditions.
func (r *Reasons) Print(b *strings.Builder, indent string, p printable.Palette) {
	line := func(indent, says string) { b.WriteString(indent + text.Below(indent, says) + "\n") }
	for _, r := range r.Rules {
		says := fmt.Sprintf("%s %s (tier %s) %s: %s", r.Effect, r.Policy, r.Tier, r.Rule, r.Outcome)
		if r.Why != "" {
			says += ", " + r.Why
		}
		line(indent, says)
		for _, condition := range r.Conditions {
			line(indent+"  ", condition)
		}
	}
	for _, r := range r.NearMatches {
		line(indent, fmt.Sprintf("%s %s (tier %s) %s: %s", printable.Paint(p.Faint, "nearly: "+r.Effect), r.Policy, r.Tier, r.Rule, r.Why))
	}
}

// Passes returns changes of a request that would change the verdict.
func Passes(r *usher.Request, x engine.Explanation, verdict usher.Verdict) []string {
	var all []string
	add := func(hint string) {
		hint = strings.ReplaceAll(hint, "$(user)", r.User.Name)
		if !slices.Contains(all, hint) {
			all = append(all, hint)
		}
	}
	for _, step := range x.Steps {
		switch {
		case verdict == usher.Deny && step.Outcome == engine.Decides && step.Rule.Policy.Effect == authz.Deny:
			denialHints(r, step, add)
		case verdict == usher.NoOpinion && step.Outcome == engine.Unselected:
			selectorHint(r, step, add)
		}
	}
	for _, near := range x.NearMatches {
		if verdict == usher.NoOpinion && near.Rule.Policy.Effect == authz.Allow && strings.HasPrefix(near.Mismatch, "name ") {
			nameHint(r, add)
		}
	}
	return all
}

// nameHint tells who makes requests themselves that a field selector alone names nothing, and reports whether it did.
func nameHint(r *usher.Request, add func(string)) bool {
	name := SelectedName(r)
	if name == "" {
		return false
	}
	add(fmt.Sprintf("the name %q in the request, too: API servers set the one that a field selector requires", name))
	return true
}

// SelectedName returns the name that a field selector requires and the request does not have. API servers take it from there.
func SelectedName(r *usher.Request) string {
	if !authz.HasSelectors(r.Access.Verb) || r.Name != "" {
		return ""
	}
	for _, field := range r.Access.Fields {
		if field.Key == "metadata.name" && field.Operator == authz.In && len(field.Values) == 1 {
			return field.Values[0]
		}
	}
	return ""
}

func denialHints(r *usher.Request, step engine.Step, add func(string)) {
	if strings.Contains(step.Why, "names [") && authz.HasSelectors(r.Access.Verb) && !nameHint(r, add) {
		add("--field-selector metadata.name=<another name>")
	}
	if strings.Contains(step.Why, "namespaces [") {
		add("-n <another namespace>")
	}
	selectorHint(r, step, add)
}

// selectorHint adds what the selectors of a policy require, if the request can have some.
func selectorHint(r *usher.Request, step engine.Step, add func(string)) {
	if selector := SelectorFlags(step.Rule.Policy); selector != "" && authz.HasSelectors(r.Access.Verb) {
		add(selector)
	}
}

// SelectorFlags are the flags that say what the selectors of a policy require.
func SelectorFlags(p *authz.Policy) string {
	var flags []string
	for flag, wanted := range map[string][]authz.Requirement{"-l": p.Labels, "--field-selector": p.Fields} {
		if len(wanted) == 0 {
			continue
		}
		var clauses []string
		for _, clause := range wanted {
			clauses = append(clauses, clause.String())
		}
		flags = append(flags, flag+" '"+strings.Join(clauses, ",")+"'")
	}
	slices.Sort(flags)
	return strings.Join(flags, " ")
}
