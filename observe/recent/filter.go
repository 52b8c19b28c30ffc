package recent

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
)

// An Outcome selects decisions by what came of the request.
type Outcome string

// The outcomes. A decision can have several of them.
const (
	Denied   Outcome = "denied"
	Changed  Outcome = "changed"
	Failed   Outcome = "failed"
	Warned   Outcome = "warned"
	Exempted Outcome = "exempted"
)

// Outcomes are all outcomes.
func Outcomes() []Outcome { return []Outcome{Denied, Changed, Failed, Warned, Exempted} }

// A Filter selects decisions. Its zero value selects all.
type Filter struct {
	// Namespace is that of the requests.
	Namespace string
	// Outcomes are alternatives.
	Outcomes []Outcome
	// Policy is the name of a policy, or KIND/NAME, or KIND/NAMESPACE/NAME.
	Policy string
	// User and Kind are those of the requests.
	User, Kind string
}

// ParseFilter reads a filter from the parameters of a URL, as [Filter.Values] writes it.
func ParseFilter(values url.Values) (Filter, error) {
	f := Filter{Policy: values.Get("policy"), User: values.Get("user"), Kind: values.Get("kind")}
	for _, word := range values["outcome"] {
		outcome := Outcome(word)
		if !slices.Contains(Outcomes(), outcome) {
			return f, fmt.Errorf("outcome %q is not one of %s", word, join(Outcomes()))
		}
		f.Outcomes = append(f.Outcomes, outcome)
	}
	return f, nil
}

func join(outcomes []Outcome) string {
	words := make([]string, len(outcomes))
	for i, o := range outcomes {
		words[i] = string(o)
	}
	return strings.Join(words, ", ")
}

// Values returns the filter as parameters of a URL, without the namespace.
func (f *Filter) Values() url.Values {
	values := url.Values{}
	for name, value := range map[string]string{"policy": f.Policy, "user": f.User, "kind": f.Kind} {
		if value != "" {
			values.Set(name, value)
		}
	}
	for _, o := range f.Outcomes {
		values.Add("outcome", string(o))
	}
	return values
}

// Accepts reports whether the filter selects a decision.
func (f *Filter) Accepts(d *Decision) bool {
	return (f.Namespace == "" || f.Namespace == d.Namespace) &&
		(f.User == "" || f.User == d.User) &&
		(f.Kind == "" || strings.EqualFold(f.Kind, d.Kind)) &&
		(f.Policy == "" || slices.ContainsFunc(d.Rules, func(r Rule) bool { return names(f.Policy, r.Policy) })) &&
		(len(f.Outcomes) == 0 || slices.ContainsFunc(f.Outcomes, d.has))
}

// names reports whether a text names a policy.
func names(text string, p usher.PolicyRef) bool {
	kind, name, divided := strings.Cut(text, "/")
	if !divided {
		return text == p.Name
	}
	if p.Namespace != "" {
		return kind == p.Kind && name == p.Namespace+"/"+p.Name
	}
	return kind == p.Kind && name == p.Name
}

func (d *Decision) has(o Outcome) bool {
	switch o {
	case Denied:
		return d.Verdict == string(usher.Deny)
	case Changed:
		return d.Changed
	case Failed:
		return d.Verdict == errored || slices.ContainsFunc(d.Rules, func(r Rule) bool { return r.Outcome == usher.Failed })
	case Warned:
		return d.Warned
	case Exempted:
		return slices.ContainsFunc(d.Rules, func(r Rule) bool { return len(r.Exemptions) > 0 })
	}
	return false
}
