package convert

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/object"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/jsonpatch"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/trial"
)

// A Comparison says how both forms of a policy decide generated requests.
type Comparison struct {
	// Requests were decided by both, and Effective is how many of them the policy denied, changed or
	// warned of.
	Requests, Effective int
	// Difference is the first request that they decide differently; nil if there is none.
	Difference *Difference
}

// A Difference is a request that two forms of a policy decide differently.
type Difference struct {
	Request *usher.Request
	// Was and Is say what From and To decide.
	Was, Is string
}

// Error describes the request, with its object, and both decisions.
func (d *Difference) Error() string {
	subject := d.Request.Object
	if subject == nil {
		subject = d.Request.OldObject
	}
	raw, err := subject.Raw()
	if err != nil {
		raw = []byte(err.Error())
	}
	return fmt.Sprintf("both forms decide differently: %s of this object by %s was %q and is %q:\n%s", d.Request.Operation, d.Request.User.Name, d.Was, d.Is, raw)
}

// Compare decides generated requests by both forms of a policy. Objects are in the cluster, such as
// params. An error means that one of the forms does not compile.
func Compare(ctx context.Context, c *Conversion, objects []map[string]any, kinds *kind.Set) (Comparison, error) {
	world := worldOf(c, objects)
	was, err := world.decider(ctx, c.From)
	if err != nil {
		return Comparison{}, err
	}
	is, err := world.decider(ctx, c.To)
	if err != nil {
		return Comparison{}, err
	}
	var result Comparison
	for r := range c.requests(ctx, world, kinds) {
		before, err := decide(ctx, was, r)
		if err != nil {
			return result, err
		}
		after, err := decide(ctx, is, r)
		if err != nil {
			return result, err
		}
		result.Requests++
		if before.effective {
			result.Effective++
		}
		if before != after {
			result.Difference = reduce(ctx, was, is, r, before, after)
			return result, nil
		}
	}
	return result, nil
}

// Requests returns generated requests that are about what policies read, with the objects that are in the cluster
// then, which are those of a list and others, and the facts that follow from them.
func Requests(ctx context.Context, policies []api.Object, objects []map[string]any, kinds *kind.Set) (iter.Seq[*usher.Request], []map[string]any, fact.Resolver) {
	c := &Conversion{From: policies}
	world := worldOf(c, objects)
	return c.requests(ctx, world, kinds), world.objects, world.facts()
}

// requests returns samples of the policy in the world.
func (c *Conversion) requests(ctx context.Context, w *world, kinds *kind.Set) iter.Seq[*usher.Request] {
	return func(yield func(*usher.Request) bool) {
		for i, sample := range c.samples(ctx, kinds, w.constants()) {
			for _, r := range w.requests(i, sample) {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// samples returns those of the policy in its old form: both forms have the same expressions.
func (c *Conversion) samples(ctx context.Context, kinds *kind.Set, constants []any) []*usher.Request {
	var all []*usher.Request
	for _, o := range c.From {
		compiled := compile.Options{}.Policy(ctx, api.Policy{Object: o})
		if typed := compiled.Typed(); typed != nil {
			all = append(all, trial.Samples(kinds, typed, api.Spec(o), constants...)...)
		}
	}
	return all
}

// A verdict is what one form of a policy does with a request.
type verdict struct {
	// said are the verdicts of both phases and the validations that fail; changed is the object as
	// JSON, empty if it stays as it is.
	said, changed string
	// effective says that the request is not simply allowed.
	effective bool
}

// String is the verdict for users.
func (v verdict) String() string {
	if v.changed == "" {
		return v.said
	}
	return v.said + ", changed to " + v.changed
}

// decide returns what a decider says in both phases.
func decide(ctx context.Context, decider usher.Decider, r *usher.Request) (verdict, error) {
	q := *r
	q.Phase = usher.Mutate
	mutated, err := decider.Decide(ctx, &q)
	if err != nil {
		return verdict{}, fmt.Errorf("decide a sample: %w", err)
	}
	q.Phase = usher.Validate
	validated, err := decider.Decide(ctx, &q)
	if err != nil {
		return verdict{}, fmt.Errorf("decide a sample: %w", err)
	}
	said, checks := validated.Verdict, said(&validated)
	if mutated.Verdict == usher.Deny {
		said = usher.Deny
	}
	v := verdict{said: string(said) + checks}
	if v.changed, err = changed(r.Object, mutated.Patch); err != nil {
		return verdict{}, err
	}
	v.effective = said == usher.Deny || checks != "" || v.changed != ""
	return v, nil
}

// changed returns a patched object as JSON, or "" if the patch changes nothing.
func changed(object *usher.Object, patch usher.Patch) (string, error) {
	tree, err := object.Tree()
	if err != nil {
		return "", fmt.Errorf("decode a sample: %w", err)
	}
	patched, _, err := jsonpatch.Apply(tree, patch)
	if err != nil {
		return "", fmt.Errorf("apply a patch to a sample: %w", err)
	}
	if reflect.DeepEqual(tree, patched) {
		return "", nil
	}
	raw, err := json.Marshal(patched)
	if err != nil {
		return "", fmt.Errorf("encode a sample: %w", err)
	}
	return string(raw), nil
}

// said returns what follows from which validations, and the audit annotations, in an order that does
// not depend on bindings.
func said(d *usher.Decision) string {
	actions := map[string]map[string]bool{}
	for i := range d.Findings {
		for _, c := range d.Findings[i].Checks {
			key := c.Name + ": " + c.Message
			switch {
			case c.Failed:
				// A condition that fails is reported as a validation by one of the kinds.
				key = c.Message
			case !strings.HasPrefix(c.Name, "spec.validations"):
				continue
			}
			if actions[key] == nil {
				actions[key] = map[string]bool{}
			}
			for _, a := range c.Actions {
				actions[key][string(a)] = true
			}
		}
	}
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(actions)) {
		if actions[key][string(usher.ActDeny)] {
			// A user who is denied is not warned of the same.
			delete(actions[key], string(usher.ActWarn))
		}
		fmt.Fprintf(&text, ", %s by %s", strings.Join(slices.Sorted(maps.Keys(actions[key])), " and "), key)
	}
	return text.String()
}

// decider returns a decider for policies alone.
func (w *world) decider(ctx context.Context, policies []api.Object) (*engine.Engine, error) {
	read := make([]api.Policy, len(policies))
	for i := range policies {
		read[i] = api.Policy{Object: policies[i]}
	}
	rules, problems := compile.Options{}.Policies(ctx, read)
	if errs := rule.Errors(problems); len(errs) > 0 {
		return nil, fmt.Errorf("compile %s: %s", errs[0].Policy, strings.TrimPrefix(errs[0].Field+": "+errs[0].What, ": "))
	}
	// A busy machine makes no difference.
	return engine.New(index.New(rules), w.facts(), engine.Options{RuleTimeout: time.Minute}), nil
}

// facts returns the objects of the world, and an authorizer that says yes to some questions.
func (w *world) facts() fact.Resolver {
	some := usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
		h := fnv.New32a()
		_, _ = fmt.Fprint(h, r.User.Name, r.Resource, r.Namespace, r.Name, *r.Access)
		return usher.Decision{Verdict: []usher.Verdict{usher.NoOpinion, usher.Allow}[h.Sum32()%2]}, nil
	})
	return fact.Resolvers{fact.Objects: object.FromTrees(w.objects), fact.Questions: fact.Access(some)}
}
