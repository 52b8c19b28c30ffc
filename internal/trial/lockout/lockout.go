// Package lockout tries policies on the requests without which a cluster cannot recover: those of
// the control plane, of nodes, of the pod network, storage and names, deletions of namespaces and
// policies, drains, and the repair of Usher itself. It sends them to a Decider, and evaluates
// nothing itself.
//
// A request that a policy refuses counts only if it reaches a door: API servers and the registration
// of Usher leave most of them out.
package lockout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/jsonpatch"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

// Options say how requests reach Usher.
type Options struct {
	// Registered are the options of the webhook configurations. The namespace is that of Usher.
	Registered webhookconfig.Options
	// Upstream says that API servers enforce Kubernetes' own admission policies, which are asked
	// about almost all requests. Otherwise Usher does.
	Upstream bool
	// Infrastructure are the namespaces in which the pod networks, storage drivers, names and certificates of the
	// cluster are: those of the samples are tried in each. None means the namespaces of the samples.
	Infrastructure []string
}

// An Effect is what a policy does to a request.
type Effect string

// The effects. A request that fails is refused, too, because the rule fails and its failure policy
// is Fail.
const (
	Refused Effect = "refused"
	Failed  Effect = "failed"
	// Changed is said of specs of workloads in kube-system only.
	Changed Effect = "changed"
)

// A Finding is what one rule does to one request.
type Finding struct {
	Policy usher.PolicyRef `json:"policy"`
	Rule   string          `json:"rule"`
	Effect Effect          `json:"effect"`
	// Message is what the user reads, or why the rule fails.
	Message string `json:"message,omitempty"`
	// Request, Group, What, Why and User are those of the [Request].
	Request   string          `json:"request"`
	Group     string          `json:"group"`
	What      string          `json:"what"`
	Why       string          `json:"why"`
	User      string          `json:"user"`
	Operation usher.Operation `json:"operation"`
	Resource  string          `json:"resource"`
	Namespace string          `json:"namespace,omitempty"`
	// Unreached is why the request does not reach a door; empty if it does.
	Unreached string `json:"unreached,omitempty"`
	// Suspended says that the policy is suspended, and has the effect once it is in force.
	Suspended bool `json:"suspended,omitempty"`
}

// A Report has the findings about one policy.
type Report struct {
	// Findings are in the order of the requests.
	Findings []Finding
	// Untried counts the requests that there was no time for.
	Untried int
}

// errNoFacts is the error for facts, which are not known here.
var errNoFacts = errors.New("lock-out checks have no facts")

// Check tries the rules of one policy, in their order, on all requests, until ctx is done. What a rule
// says without the facts that it needs does not count. Namespaces are known, with the label that API
// servers set and no other.
func Check(ctx context.Context, rules []rule.Rule, o Options) (Report, error) {
	if len(rules) == 0 {
		return Report{}, nil
	}
	requests, err := Requests(o.Registered.Namespace)
	if own := rules[0].Policy.Namespace; own != "" {
		requests, err = requestsIn(own, o.Registered.Namespace)
	}
	if err == nil {
		requests, err = installed(requests, o.Infrastructure)
	}
	if err != nil {
		return Report{}, err
	}
	c := newChecker(rules, o)
	var result Report
	for i := range requests {
		if ctx.Err() != nil {
			result.Untried = len(requests) - i
			break
		}
		result.Findings = append(result.Findings, c.request(ctx, &requests[i])...)
	}
	return result, nil
}

// A checker tries the rules of one policy.
type checker struct {
	options  Options
	decider  usher.Decider
	coverage rule.Coverage
	// upstream says that an API server enforces the policy.
	upstream bool
	asked    bool
}

func newChecker(rules []rule.Rule, o Options) *checker {
	c := &checker{options: o, coverage: rule.Cover(rules)}
	facts := fact.ResolverFunc(func(_ context.Context, ref fact.Ref) (any, error) {
		if o, ok := ref.(*fact.Object); ok && o.Kind == "Namespace" && o.APIVersion == "v1" && o.Name != "" {
			return namespace(o.Name), nil
		}
		c.asked = true
		return nil, errNoFacts
	})
	decide := func(some []rule.Rule) usher.Decider {
		return engine.New(index.New(some), facts, engine.Options{FailurePolicy: usher.Fail})
	}
	c.decider = engine.NewEntries(rules, c.coverage.Entries(), decide(rules), decide)
	c.upstream = o.Upstream && isForeign(rules[0].Policy.Kind)
	return c
}

func namespace(name string) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": name, "labels": map[string]any{"kubernetes.io/metadata.name": name}},
	}
}

// request tries one request in both phases: what the policy changes is what it then validates.
func (c *checker) request(ctx context.Context, r *Request) []Finding {
	var found []Finding
	var patch usher.Patch
	var unchanged bool
	for _, phase := range []usher.Phase{usher.Mutate, usher.Validate} {
		asked := r.Admission(phase)
		why := c.unreached(asked)
		if !unchanged || why != "" {
			patched(asked, patch)
		}
		some, changes := c.decide(ctx, r, asked)
		// Only one of the phases may be reached.
		patch, unchanged = changes, why != ""
		if len(some) == 0 {
			continue
		}
		if why == "" && !c.upstream {
			// The entry that is called may not have the rule.
			asked.Entry = webhookconfig.WholeEntryOf(asked)
			if here, _ := c.decide(ctx, r, asked); len(here) > 0 {
				some = here
			} else {
				why = "the webhook for this endpoint does not run the rule"
			}
		}
		for i := range some {
			some[i].Unreached = why
		}
		found = append(found, some...)
		if some[0].Effect != Changed {
			break
		}
	}
	return found
}

// unreached returns why no door is asked about a request.
func (c *checker) unreached(r *usher.Request) string {
	if c.upstream {
		return ""
	}
	if why := c.options.Registered.Unsent(r); why != "" {
		return why
	}
	if !api.IsGroup(r.Resource.Group) && !c.coverage.Covers(r) {
		return "the registration leaves out the endpoint"
	}
	return ""
}

// patched changes the object of a request, as API servers do before they ask who validates.
func patched(r *usher.Request, patch usher.Patch) {
	if len(patch) == 0 {
		return
	}
	tree, err := r.Object.Tree()
	if err != nil {
		return
	}
	if changed, _, err := jsonpatch.Apply(tree, patch); err == nil {
		r.Object = usher.TreeObject(changed)
	}
}

// decide returns what the rules do to a request, and the changes of the object. Facts are unknown, so that a rule that needs
// one says nothing.
func (c *checker) decide(ctx context.Context, r *Request, asked *usher.Request) ([]Finding, usher.Patch) {
	c.asked = false
	d, err := c.decider.Decide(ctx, asked)
	if err != nil || c.asked {
		return nil, nil
	}
	var found []Finding
	for i := range d.Findings {
		f := &d.Findings[i]
		one := Finding{
			Policy: f.Policy, Rule: placeOf(f), Message: f.Message,
			Request: r.Name, Group: r.Group, What: r.What, Why: r.Why, User: r.User,
			Operation: r.Operation, Resource: r.Resource, Namespace: r.Namespace,
		}
		switch failure := f.Failure(); {
		case f.Policy == (usher.PolicyRef{}):
			continue
		case d.Verdict != usher.Deny && f.Outcome == usher.Changed && changesSpec(r, f.Patch):
			one.Effect = Changed
		case d.Verdict != usher.Deny:
			continue
		case f.Outcome == usher.Failed && !f.Ignored, f.Outcome == usher.Rejected && failure != nil:
			one.Effect, one.Message = Failed, failure.Error()
		case f.Outcome == usher.Rejected:
			one.Effect = Refused
		default:
			continue
		}
		found = append(found, one)
	}
	return found, d.Patch
}

// placeOf returns the part of the policy that decided: the first that had something to say, or the rule.
func placeOf(f *usher.Finding) string {
	for i := range f.Checks {
		if f.Checks[i].Failed || slices.Contains(f.Checks[i].Actions, usher.ActDeny) {
			return f.Checks[i].Name
		}
	}
	return f.Rule
}

// changesSpec reports whether a patch changes the spec of a workload or pod in kube-system.
func changesSpec(r *Request, patch usher.Patch) bool {
	if r.Namespace != "kube-system" || len(r.New) == 0 {
		return false
	}
	var object map[string]any
	if err := json.Unmarshal(r.New, &object); err != nil {
		return false
	}
	changed, _, err := jsonpatch.Apply(object, patch)
	return err == nil && !reflect.DeepEqual(object["spec"], changed["spec"])
}

// String is the finding in one line.
func (f Finding) String() string {
	s := fmt.Sprintf("%s: %s of %s by %s", f.Request, f.Operation, f.Resource, f.User)
	if f.Namespace != "" {
		s += " in " + f.Namespace
	}
	return s
}

// isForeign reports whether policies of a kind are Kubernetes' own.
func isForeign(kind string) bool {
	return slices.ContainsFunc(api.ForeignKinds(), func(versions []api.Kind) bool { return versions[0].Kind == kind })
}
