package fact

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
)

// Access returns a Resolver that asks a decider about access. The decider's error is part of
// the value, since expressions go on after it: the decision is then mostly that there is no
// opinion. Only when ctx is over is there no value.
func Access(authorizer usher.Decider) Resolver {
	return ResolverFunc(func(ctx context.Context, ref Ref) (any, error) {
		if ref.Access == nil {
			return nil, fmt.Errorf("resolve %s: it is not a question about access", ref)
		}
		d, err := authorizer.Decide(ctx, ref.Access)
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

// describeAccess names the question as a user would ask it, such as "may jane get v1 pods
// shop/web".
func describeAccess(r *usher.Request) string {
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

// accessKey contains everything that an authorizer sees. What it repeats of the user is not
// secret.
func accessKey(r *usher.Request) string {
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
