package fact_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
)

func TestAccess(t *testing.T) {
	t.Parallel()
	broken := errors.New("webhook is down")
	for _, test := range []struct {
		reason string
		says   usher.Decision
		err    error
		want   map[string]any
	}{
		{"allowed", usher.Decision{Verdict: usher.Allow, Message: "a role"}, nil, map[string]any{"decision": "allow", "reason": "a role"}},
		{"denied", usher.Decision{Verdict: usher.Deny}, nil, map[string]any{"decision": "deny", "reason": ""}},
		{"no opinion", usher.Decision{Message: "no role"}, nil, map[string]any{"decision": "noOpinion", "reason": "no role"}},
		{"no answer", usher.Decision{}, broken, map[string]any{"decision": "noOpinion", "reason": "", "error": "webhook is down"}},
		{
			"an error does not undo a decision", usher.Decision{Verdict: usher.Allow}, broken,
			map[string]any{"decision": "allow", "reason": "", "error": "webhook is down"},
		},
	} {
		ref := access(func(*usher.Request) {})
		var asked *usher.Request
		resolver := fact.Access(usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
			asked = r
			return test.says, test.err
		}))
		value, err := resolver.Resolve(t.Context(), ref)
		if err != nil {
			t.Errorf("%s: %v", test.reason, err)
		}
		if diff := cmp.Diff(any(test.want), value); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.reason, diff)
		}
		if (fact.Question{Request: asked}) != ref {
			t.Errorf("%s: asked %+v", test.reason, asked)
		}
	}
}

func TestAccessIsOverWithItsRequest(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	resolver := fact.Access(usher.DeciderFunc(func(ctx context.Context, _ *usher.Request) (usher.Decision, error) {
		return usher.Decision{}, ctx.Err()
	}))
	if value, err := resolver.Resolve(ctx, access(func(*usher.Request) {})); !errors.Is(err, context.Canceled) || value != nil {
		t.Errorf("got %v, %v: want no answer", value, err)
	}
}

func TestAccessIsAboutAccessOnly(t *testing.T) {
	t.Parallel()
	resolver := fact.Access(usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
		t.Error("the decider is asked")
		return usher.Decision{}, nil
	}))
	if _, err := resolver.Resolve(t.Context(), object(func(*fact.Object) {})); err == nil || !strings.Contains(err.Error(), "not a question about access") {
		t.Errorf("got %v", err)
	}
}

func TestResolvers(t *testing.T) {
	t.Parallel()
	from := func(name string) fact.Resolver {
		return fact.ResolverFunc(func(context.Context, fact.Ref) (any, error) { return name, nil })
	}
	all := fact.Resolvers{fact.Objects: from("objects"), fact.Requests: from("http"), fact.Questions: from("access")}
	none := fact.Resolvers{fact.Questions: nil}
	for _, test := range []struct {
		ref     fact.Ref
		want    any
		without string
	}{
		{object(func(*fact.Object) {}), "objects", "get v1 ConfigMap shop/site: objects of the cluster are not available here"},
		{request(func(*fact.HTTP) {}), "http", "HTTP requests are not possible here"},
		{access(func(*usher.Request) {}), "access", "ask may jane update deployments.apps/scale web in namespace shop: nobody here knows what users may do"},
		{nil, nil, "the reference is empty"},
	} {
		if value, err := all.Resolve(t.Context(), test.ref); value != test.want || (err != nil) != (test.want == nil) {
			t.Errorf("%s: %v, %v", test.ref, value, err)
		}
		if value, err := none.Resolve(t.Context(), test.ref); value != nil || err == nil || !strings.Contains(err.Error(), test.without) {
			t.Errorf("%s without a resolver: %v, %v", test.ref, value, err)
		}
	}
}
