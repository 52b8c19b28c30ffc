package webhookconfig

import (
	"regexp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/usher-dev/usher/internal/rule"
)

// condition is the name of the condition that an object is where policies are for it.
const condition = "namespaces-with-policies"

// reaches matches what a reach is in CEL: the first group are the namespaces of one with Only, the others those of one
// without.
const (
	listed  = `(\[\]|\['[a-z0-9-]+(?:', '[a-z0-9-]+)*'\])`
	reaches = `(?:!?has\(request\.namespace\) (?:&&|\|\|) request\.namespace in ` + listed +
		`|has\(request\.namespace\) && !\(request\.namespace in ` + listed + `\)` +
		`|!\(has\(request\.namespace\) && request\.namespace in ` + listed + `\))`
)

var (
	wholeReach = regexp.MustCompile(`^` + reaches + `$`)
	areaReach  = regexp.MustCompile(`^\((?:\(.*\) && \()?` + reaches + `\)?\)$`)
)

// SentFrom returns from which namespaces an entry that is registered with these conditions gets requests of any kind:
// all, unless [Applier.Objects] wrote that no policy is for some.
func SentFrom(conditions []admissionv1.MatchCondition) rule.Namespaces {
	i := slices.IndexFunc(conditions, func(c admissionv1.MatchCondition) bool { return c.Name == condition })
	if i < 0 {
		return rule.Namespaces{}
	}
	if set, ok := reached(wholeReach, conditions[i].Expression); ok {
		return set
	}
	from := rule.Namespaces{Only: true}
	for _, term := range alternatives(conditions[i].Expression) {
		set, ok := reached(areaReach, term)
		if !ok {
			return rule.Namespaces{}
		}
		from = from.Or(set)
	}
	return from
}

// reached returns the namespaces of a reach that was written as CEL.
func reached(form *regexp.Regexp, text string) (rule.Namespaces, bool) {
	groups := form.FindStringSubmatch(text)
	if groups == nil {
		return rule.Namespaces{}, false
	}
	var names []string
	if list := strings.Trim(strings.Join(groups[1:], ""), "[]'"); list != "" {
		names = strings.Split(list, "', '")
	}
	slices.Sort(names)
	return rule.Namespaces{Names: names, Only: groups[1] != ""}, true
}

// alternatives splits an expression at each || that is not in parentheses.
func alternatives(expression string) []string {
	var all []string
	depth, begin, quoted := 0, 0, false
	for i, c := range expression {
		switch {
		case c == '\'':
			quoted = !quoted
		case quoted:
		case c == '(':
			depth++
		case c == ')':
			depth--
		case depth == 0 && strings.HasPrefix(expression[i:], " || "):
			all = append(all, expression[begin:i])
			begin = i + len(" || ")
		}
	}
	return append(all, expression[begin:])
}
