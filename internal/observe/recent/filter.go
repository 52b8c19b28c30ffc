package recent

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
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
	// Outcomes are alternatives. Of decisions of candidates, they are those that differ.
	Outcomes []Outcome
	// Policy is the name of a policy, or NAMESPACE/NAME, either of them with KIND/ before it. It
	// selects the decisions in which a rule of it made a difference, with Outcomes that one, and, with Slower,
	// those in which one took the longest. Requests have warnings, rules do not.
	Policy string
	// User is that of the requests. Kind is the kind of the objects, or the resource, in any case.
	User, Kind string
	// Since is how old a decision is at most when the filter is parsed; 0 is any age.
	Since time.Duration
	// Slower selects decisions that took longer; 0 selects all.
	Slower time.Duration

	// after is when decisions were made at the earliest, in nanoseconds of Unix time.
	after int64
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
	for _, p := range []struct {
		name string
		to   *time.Duration
	}{{"since", &f.Since}, {"slowerThan", &f.Slower}} {
		text := values.Get(p.name)
		if text == "" {
			continue
		}
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return f, fmt.Errorf("%s %q is not a duration such as 15m or 100ms", p.name, text)
		}
		*p.to = d
	}
	if f.Since > 0 {
		f.after = time.Now().Add(-f.Since).UnixNano()
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
	for name, d := range map[string]time.Duration{"since": f.Since, "slowerThan": f.Slower} {
		if d > 0 {
			values.Set(name, d.String())
		}
	}
	for _, o := range f.Outcomes {
		values.Add("outcome", string(o))
	}
	return values
}

// selects reports whether the filter selects a decision; nil selects all.
func (f *Filter) selects(k *kept) bool {
	return f == nil ||
		k.at >= f.after && (f.Slower == 0 || k.took > int64(f.Slower)) &&
			(f.Namespace == "" || f.Namespace == string(k.field(namespace))) &&
			(f.User == "" || printable.Cut(f.User, longest[userName]) == string(k.field(userName))) &&
			(f.Kind == "" || strings.EqualFold(f.Kind, string(k.field(kind))) || strings.EqualFold(f.Kind, string(k.field(resource)))) &&
			(len(f.Outcomes) == 0 || slices.ContainsFunc(f.Outcomes, k.has)) &&
			(f.Policy == "" || f.selectsPolicyOf(k))
}

// selectsPolicyOf reports whether the policy made a difference, one of the outcomes if there are some, or, if slow
// decisions are asked for, took the longest.
func (f *Filter) selectsPolicyOf(k *kept) bool {
	return f.Slower > 0 && k.slowest != nil && rule.Names(f.Policy, k.slowest.rule.Value().policy) ||
		slices.ContainsFunc(k.rules, func(r keptRule) bool {
			did := func(o Outcome) bool { return k.has(o) && r.has(o) }
			return rule.Names(f.Policy, r.rule.Value().policy) &&
				(len(f.Outcomes) == 0 || k.differences != 0 || slices.ContainsFunc(f.Outcomes, did))
		})
}

// has reports whether an outcome of its request may be because of the rule.
func (r *keptRule) has(o Outcome) bool {
	switch o {
	case Denied:
		return outcomes[r.outcome] == string(usher.Rejected) || outcomes[r.outcome] == string(usher.Failed) && r.flags&ignored == 0
	case Changed:
		return outcomes[r.outcome] == string(usher.Changed)
	case Failed:
		return r.flags&failed != 0
	case Exempted:
		return r.exemptions > 0
	case Warned:
		// Requests have warnings, rules do not.
	}
	return true
}

func (k *kept) has(o Outcome) bool {
	if k.differences != 0 && o != Exempted {
		return k.differs(o)
	}
	switch o {
	case Denied:
		return verdicts[k.verdict] == string(usher.Deny)
	case Changed:
		return k.flags&changed != 0
	case Failed:
		return k.flags&failed != 0 || verdicts[k.verdict] == Errored
	case Warned:
		return k.flags&warned != 0
	case Exempted:
		return slices.ContainsFunc(k.rules, func(r keptRule) bool { return r.has(Exempted) })
	}
	return false
}
