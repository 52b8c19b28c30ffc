package fact

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
)

// A Question asks the authorizers of the cluster whether a user may do something. Its value is
// {"decision": "allow", "deny" or "noOpinion", "reason": text}, with "error": text if an authorizer
// erred.
type Question struct {
	// Request is a request to authorize, with Phase, User, Access and what it is for.
	Request *usher.Request
}

// Access returns a Resolver that asks a decider about access. The decider's error is part of
// the value, since expressions go on after it: the decision is then mostly that there is no
// opinion. Only when ctx is over is there no value.
func Access(authorizer usher.Decider) Resolver {
	return ResolverFunc(func(ctx context.Context, ref Ref) (any, error) {
		question, ok := ref.(Question)
		if !ok {
			return nil, fmt.Errorf("resolve %s: it is not a question about access", ref)
		}
		d, err := authorizer.Decide(ctx, question.Request)
		if err != nil && ctx.Err() != nil {
			return nil, err
		}
		value := map[string]any{"decision": string(d.Verdict), "reason": d.Message}
		if d.Verdict == usher.NoOpinion {
			value["decision"] = "noOpinion"
		}
		if err != nil {
			value["error"] = err.Error()
		}
		return value, nil
	})
}

// Sort is [Questions].
func (Question) Sort() Sort { return Questions }

// Safe is true: questions are stored nowhere.
func (Question) Safe() bool { return true }

// Confidential is false.
func (Question) Confidential() bool { return false }

// Unresolved says that there are no authorizers.
func (q Question) Unresolved() error {
	return fmt.Errorf("ask %s: nobody here knows what users may do", q)
}

// Check allows questions of policies of the cluster: who may do what elsewhere is not for authors in a
// namespace to know.
func (Question) Check(b *Bounds) error {
	if b.Namespace == "" {
		return nil
	}
	return fmt.Errorf("a policy of namespace %s does not ask what users may do", b.Namespace)
}

// String names the question as a user would ask it, such as "may jane get v1 pods
// shop/web".
func (q Question) String() string {
	r := q.Request
	question := "may " + r.User.Name + " " + r.Access.Verb + " "
	if r.Access.NonResource {
		return question + r.Access.Path
	}
	question += strings.TrimSuffix(r.Resource.Resource+"."+r.Resource.Group, ".")
	if r.Subresource != "" {
		question += "/" + r.Subresource
	}
	if r.Name != "" {
		question += " " + r.Name
	}
	if r.Namespace != "" {
		question += " in namespace " + r.Namespace
	}
	return question
}

// Key contains everything that an authorizer sees. What it repeats of the user is not
// secret.
func (q Question) Key() string {
	r := q.Request
	var b strings.Builder
	fmt.Fprintf(&b, "access %q %q %q", r.User.Name, r.User.UID, r.User.Groups)
	for _, name := range slices.Sorted(maps.Keys(r.User.Extra)) {
		fmt.Fprintf(&b, " %q=%q", name, r.User.Extra[name])
	}
	fmt.Fprintf(&b, " | %q", r.Access.Verb)
	if r.Access.NonResource {
		fmt.Fprintf(&b, " path %q", r.Access.Path)
		return b.String()
	}
	fmt.Fprintf(&b, " %q %q %q %q %q %q", r.Resource.Group, r.Resource.Version, r.Resource.Resource, r.Subresource, r.Namespace, r.Name)
	fmt.Fprintf(&b, " %q %q", r.Access.Labels, r.Access.Fields)
	return b.String()
}
