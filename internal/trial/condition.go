package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/overrun"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/allowance"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// conditions tries the conditions of a policy on users.
func (a *access) conditions(ctx context.Context, r *authz.Rule) {
	for _, c := range clausesOf(r.Policy) {
		a.condition(ctx, r, &c)
	}
}

func (a *access) condition(ctx context.Context, r *authz.Rule, c *clause) {
	effect := "matches whatever the condition would say"
	if a.allows {
		effect = "allows nothing"
	} else if r.Policy.SkipErrors {
		effect = "does not match"
	}
	for _, sample := range queries(r) {
		_, err := a.holds(ctx, r, c.condition, sample.query)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			do := cmp.Or(allowance.Advice(err.Error()), "ask first whether it is there")
			if key, missing := strings.CutPrefix(err.Error(), "no such key: "); missing {
				do = fmt.Sprintf("ask first: '%s' in request.extra && …", key)
			} else if absent, ok := errors.AsType[*authz.AbsentError](err); ok {
				err, do = errors.New(absent.What), absent.Do
			}
			a.warn(c.field, fmt.Sprintf("the condition fails for %s, and the policy %s: %v", sample.name, effect, err), do)
			break
		}
	}
	for _, use := range c.uses() {
		if len(use.Paths) == 0 {
			for _, with := range use.Compared {
				a.warn(c.field, fmt.Sprintf("the condition is always %v", with.With), "compare a field of request, or remove it")
			}
			continue
		}
		a.compared(c.field, r, use)
	}
}

// holds returns what a condition says of a request, of which nobody waits for the answer.
func (a *access) holds(ctx context.Context, r *authz.Rule, c *authz.Condition, q *authz.Query) (bool, error) {
	var shares overrun.Shares
	share := shares.Of(a.overruns, r.Policy.Ref.Namespace)
	defer share.Turn.End()
	q.Allowance = share.Allowance
	return c.Predicate.Holds(ctx, q)
}

// compared warns of values that no request of the rules has.
func (a *access) compared(field string, r *authz.Rule, use rule.Use) {
	var set authz.Set
	switch strings.Join(use.Paths[0], ".") {
	case "verb":
		set = r.Verbs
	case "group":
		set = r.Groups
	case "resource":
		for _, at := range r.Resources {
			if at.Every || at.Name == "*" {
				return
			}
			set.Patterns = append(set.Patterns, authz.Pattern{Prefix: at.Name})
		}
	default:
		return
	}
	if set.Any || len(exact(set)) < len(set.Patterns) || len(set.Patterns) == 0 {
		return
	}
	for _, c := range use.Compared {
		if text, ok := c.With.(string); ok && c.Op == "==" && !slices.Contains(exact(set), text) {
			do := cmp.Or(rule.Suggestion(text, exact(set)), "the rule is for "+strings.Join(exact(set), ", "))
			a.warn(field, fmt.Sprintf("request.%s is never %q in %s", use.Paths[0][0], text, r.Name), do)
		}
	}
}

// A sampleQuery is a request to try conditions on.
type sampleQuery struct {
	name  string
	query *authz.Query
}

// queries returns requests of two users: a person, and a service account.
func queries(r *authz.Rule) []sampleQuery {
	value := func(set authz.Set, other string) authz.Value {
		if texts := exact(set); len(texts) > 0 {
			return authz.Value{Text: texts[0]}
		}
		return authz.Value{Text: other}
	}
	person := authz.Query{
		User: &usher.User{Name: "jane", Groups: []string{"system:authenticated"}},
		Verb: value(r.Verbs, "get"), Group: value(r.Groups, ""), Name: authz.Value{Text: "x"}, Namespace: authz.Value{Text: "x"},
	}
	if r.URLs != nil {
		person.NonResource, person.Path = true, value(*r.URLs, "/x")
	} else if len(r.Resources) > 0 {
		person.Resource = authz.Value{Text: r.Resources[0].Name}
		person.Subresource = r.Resources[0].Subresource
	}
	account := person
	account.User = &usher.User{Name: "system:serviceaccount:x:x", Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	account.AccountNamespace, account.AccountName = "x", "x"
	return []sampleQuery{{"people", &person}, {"service accounts", &account}}
}
