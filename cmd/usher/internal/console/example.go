package console

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/console"
	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/library"
)

// An Example is a policy of the library.
type Example struct {
	Name        string `json:"name"`
	Title       string `json:"title"`
	Pack        string `json:"pack"`
	Category    string `json:"category"`
	Description string `json:"description"`
}

func examples() ([]Example, error) {
	packs, err := library.Packs()
	if err != nil {
		return nil, err
	}
	all := []Example{}
	for i := range packs {
		for n := range packs[i].Policies {
			p := &packs[i].Policies[n]
			if p.Origin == p.Pack {
				all = append(all, Example{p.Name, p.Name, packs[i].Title, p.Spec.Category, p.Summary()})
			}
		}
	}
	return all, nil
}

// policyOf returns a policy of the library.
func policyOf(name string) (*library.Policy, error) {
	packs, err := library.Packs()
	if err != nil {
		return nil, err
	}
	for i := range packs {
		for n := range packs[i].Policies {
			if p := &packs[i].Policies[n]; p.Name == name && p.Origin == p.Pack {
				return p, nil
			}
		}
	}
	return nil, &console.Error{Status: http.StatusNotFound, Text: fmt.Sprintf("the library has no policy %q", name)}
}

// example returns a policy, and the first request of its cases that it refuses, warns of or changes.
func (b *bench) example(ctx context.Context, name string) (*console.State, error) {
	p, err := policyOf(name)
	if err != nil {
		return nil, err
	}
	tests, err := casesOf(p)
	if err != nil {
		return nil, err
	}
	var first *console.State
	for _, t := range tests {
		c, ok := t.Admission()
		if !ok || c.Skip != "" || c.Params != nil || c.ValidationActions != nil {
			continue
		}
		state, err := StateOf(c, string(p.Text))
		if err != nil {
			return nil, err
		}
		if first == nil {
			first = state
		}
		result, err := b.attempts.Decide(ctx, attemptOf(state))
		if err == nil && len(result.Problems) == 0 && result.Judgement.Verdict() != "allowed" {
			return state, nil
		}
	}
	if first == nil {
		first = &console.State{Policies: string(p.Text)}
	}
	return first, nil
}

// casesOf returns the cases of a policy of the library.
func casesOf(p *library.Policy) ([]policytest.Test, error) {
	return policytest.Parse("cases/"+p.File+".yaml", p.Cases, func(name string) ([]byte, error) {
		if name == p.File+".yaml" {
			return p.Text, nil
		}
		return nil, fmt.Errorf("%s: no such file", name)
	})
}

// StateOf returns the state of a case, with the text of its policies.
func StateOf(c *policytest.Case, policies string) (*console.State, error) {
	r := &c.Request
	s := &console.State{
		Policies: policies, Operation: string(r.Operation), Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name, DryRun: r.DryRun,
		User: console.User{Name: r.User.Name, UID: r.User.UID, Groups: r.User.Groups, Extra: r.User.Extra},
	}
	var err error
	if s.Object, err = yamlOf(r.Object); err != nil {
		return nil, err
	}
	if s.OldObject, err = yamlOf(r.OldObject); err != nil {
		return nil, err
	}
	if r.Operation == usher.Delete && s.OldObject == "" {
		s.Object, s.OldObject = "", s.Object
	}
	s.Facts, err = yamlOf(c.Objects...)
	return s, err
}

// yamlOf returns objects as the documents of a text; those that are nil are left out.
func yamlOf(trees ...map[string]any) (string, error) {
	var documents []string
	for _, tree := range slices.DeleteFunc(slices.Clone(trees), func(tree map[string]any) bool { return tree == nil }) {
		text, err := printable.YAML(tree)
		if err != nil {
			return "", fmt.Errorf("encode object: %w", err)
		}
		documents = append(documents, string(text))
	}
	return strings.Join(documents, "---\n"), nil
}
