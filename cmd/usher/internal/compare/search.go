package compare

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/impact"
	"github.com/usher-dev/usher/internal/impact/diff"
	"github.com/usher-dev/usher/internal/jsonpatch"
	"github.com/usher-dev/usher/internal/policytest"
)

// mostSearched bounds the requests that are generated for a policy.
const mostSearched = 20_000

// A searched is a policy that was tried on generated requests.
type searched struct {
	Policy usher.PolicyRef `json:"policy"`
	// Requests is how many were tried. That none shows a difference is no proof.
	Requests int `json:"requests"`
	// Kind and Message say how the decisions on the request that was found differ; they are empty if none was.
	Kind    diff.Kind `json:"kind,omitempty"`
	Message string    `json:"message,omitempty"`
	// Case is the request that was found, with the answer of the new policy, or of the old one if there is no new
	// one. Nil for requests to authorize.
	Case *policytest.Case `json:"case,omitempty"`
}

// search tries the policies that differ, and of which no request has shown that, on generated requests.
func (c *comparing) search(ctx context.Context, was, is policies.Set, r *impactReport) ([]searched, error) {
	all := []searched{}
	for _, ref := range r.Policies {
		if slices.ContainsFunc(r.Rows, func(row impact.Row) bool { return row.Policy == ref && row.Kind != diff.Unknown }) {
			continue
		}
		one := searched{Policy: ref}
		var err error
		if rules := c.workers[0].Access(ref); len(rules) > 0 {
			items, _ := questions(rules)
			_, err = c.first(ctx, &one, slices.Values(items))
		} else {
			err = c.searchWrites(ctx, was, is, &one)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// first looks for a request that shows a difference of a policy, the worst of them; nil if none does.
func (c *comparing) first(ctx context.Context, one *searched, items func(func(item) bool)) (found *item, err error) {
	for i := range items {
		if one.Requests == mostSearched {
			return found, nil
		}
		one.Requests++
		d, err := c.differs(ctx, one.Policy, &i)
		if err != nil {
			return nil, err
		}
		if d != nil && (found == nil || slices.Index(diff.Kinds(), d.Kind) < slices.Index(diff.Kinds(), one.Kind)) {
			one.Kind, one.Message = d.Kind, d.Message
			if d.Request.Access != nil {
				at := impact.Row{Resource: impact.Resource(d.Request), Namespace: d.Request.Namespace, User: d.Request.User.Name}
				one.Message = where(&at) + ": " + d.Message
			}
			found = &i
		}
		if one.Kind == diff.Denied || one.Kind == diff.Failing {
			break
		}
	}
	return found, nil
}

// differs returns the first difference that a policy makes to a request; nil if it makes none.
func (c *comparing) differs(ctx context.Context, ref usher.PolicyRef, i *item) (*impact.Difference, error) {
	w := &c.workers[0]
	w.scene.set(i)
	return policies.Within(ctx, c.timeout, "compare a generated request", func(ctx context.Context) (*impact.Difference, error) {
		differences, _, err := w.Compare(ctx, i.Subject)
		for k := range differences {
			if d := &differences[k]; d.Policy == ref && d.Kind != diff.Unknown {
				return d, nil
			}
		}
		return nil, err
	})
}

// searchWrites looks for a write on which the sides differ because of a policy, and makes it small.
func (c *comparing) searchWrites(ctx context.Context, was, is policies.Set, one *searched) error {
	before, parts := partsOf(was, one.Policy), partsOf(is, one.Policy)
	requests, objects, resolver := convert.Requests(ctx, slices.Concat(before, parts), c.known, c.kinds)
	subject := func(r *usher.Request) item {
		return item{Subject: &impact.Subject{Request: r, From: "generated", Unknown: impact.Unknowns{HTTP: c.notAsked}}, facts: resolver}
	}
	found, err := c.first(ctx, one, func(yield func(item) bool) {
		for r := range requests {
			if r.Phase = usher.Mutate; !yield(subject(r)) {
				return
			}
		}
	})
	if found == nil || err != nil {
		return err
	}
	small := convert.Reduce(found.Request, func(r *usher.Request) bool {
		i := subject(r)
		if !named(r) {
			return false
		}
		d, err := c.differs(ctx, one.Policy, &i)
		return err == nil && d != nil && d.Kind == one.Kind && d.Message == one.Message
	})
	if len(parts) == 0 {
		parts = before
	}
	one.Case, err = caseOf(ctx, one, small, parts, objects)
	return err
}

// named reports whether the object of a request has a name, as all objects of a cluster do.
func named(r *usher.Request) bool {
	tree, err := r.Target().Tree()
	metadata, _ := tree["metadata"].(map[string]any)
	return err == nil && metadata["name"] != nil
}

// partsOf returns a policy, and the bindings that it has.
func partsOf(set policies.Set, ref usher.PolicyRef) []api.Object {
	var all []api.Object
	compiled := set.Compiled()
	for i := range compiled {
		o := compiled[i].Policy.Object
		if compiled[i].Ref == ref || compiled[i].Binding != nil && compiled[i].Binding.Policy() == ref {
			all = append(all, o)
		}
	}
	return all
}

// caseOf returns a request as a case that holds, with the policies and, if it takes them, the objects of the search.
func caseOf(ctx context.Context, one *searched, r *usher.Request, parts []api.Object, objects []map[string]any) (*policytest.Case, error) {
	request, err := policytest.RequestOf(r)
	if err != nil {
		return nil, err
	}
	c := &policytest.Case{Name: "difference-" + one.Policy.Name, Phase: usher.Validate, Request: *request, Description: "found by search: " + string(one.Kind)}
	if one.Kind == diff.Changed {
		c.Phase = usher.Mutate
	}
	for _, o := range parts {
		text, err := json.Marshal(o)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", one.Policy, err)
		}
		tree, err := usher.RawObject(text).Tree()
		if err != nil {
			return nil, fmt.Errorf("decode %s: %w", one.Policy, err)
		}
		delete(tree, "status")
		c.Policies = append(c.Policies, tree)
	}
	c.Objects = objects
	with, err := answered(ctx, c)
	if err != nil {
		return nil, err
	}
	c.Objects = nil
	if without, err := answered(ctx, c); err == nil && *without.Allowed == *with.Allowed && (without.PatchedObject == nil) == (with.PatchedObject == nil) {
		c.Expect = without
		return c, nil
	}
	c.Objects, c.Expect = objects, with
	return c, nil
}

// answered returns the answer to a case.
func answered(ctx context.Context, c *policytest.Case) (*policytest.Expect, error) {
	s, err := c.Setup(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	r, err := c.Request.For(c.Phase)
	if err != nil {
		return nil, err
	}
	d, err := s.Decider.Decide(ctx, r)
	if err != nil {
		return nil, err
	}
	allowed := d.Verdict != usher.Deny
	e := &policytest.Expect{Allowed: &allowed, Warnings: d.Warnings}
	if !allowed {
		e.MessageContains = d.Message
	}
	if len(d.Patch) > 0 {
		e.PatchedObject, err = patched(c.Request.Object, d.Patch)
	}
	return e, err
}

func patched(object map[string]any, patch usher.Patch) (map[string]any, error) {
	after, _, err := jsonpatch.Apply(object, patch)
	return after, err
}
