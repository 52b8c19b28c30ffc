package guard_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/compile/guard"
	"github.com/usher-dev/usher/internal/proof"
)

// unanswered is a review that failed, and refused one that was answered.
func unanswered(context.Context, *usher.Request) (bool, error) {
	return false, context.DeadlineExceeded
}

func refused(context.Context, *usher.Request) (bool, error) { return false, nil }

// A review that failed is not a no: the writer may have the right, and is told to try again.
func TestReviewsThatFail(t *testing.T) {
	t.Parallel()
	mutating := func(r *usher.Request) { r.Phase, r.Trusted = usher.Mutate, true }
	for _, tt := range []struct {
		reason  string
		object  string
		may     guard.Asker
		change  func(*usher.Request)
		code    int32
		message string
	}{
		{
			"a policy of a namespace", pods, unanswered, nil, http.StatusServiceUnavailable,
			"OverridePolicy shop/p: could not check whether jane may create pods in shop: context deadline exceeded, try again",
		},
		{"one that was answered", pods, refused, nil, http.StatusForbidden, "needs permission to create and update pods in shop, which jane does not have"},
		{
			"a grant, of which neither question was answered", grant, unanswered, nil, http.StatusServiceUnavailable,
			"could not check whether jane may get pods in shop: context deadline exceeded, try again",
		},
		{
			"a grant that is not covered, while escalate was not answered", grant,
			func(ctx context.Context, r *usher.Request) (bool, error) {
				if r.Access.Verb == "escalate" {
					return unanswered(ctx, r)
				}
				return false, nil
			},
			nil, http.StatusServiceUnavailable, "could not check whether jane may escalate",
		},
		{
			"a grant that is covered, while escalate was not answered", grant,
			func(ctx context.Context, r *usher.Request) (bool, error) {
				if r.Access.Verb == "escalate" {
					return unanswered(ctx, r)
				}
				return true, nil
			},
			func(r *usher.Request) { r.Phase, r.Trusted = usher.Mutate, true }, 0, "",
		},
		{
			"a proof that cannot be made: the writer would be told that there is none", grant, unanswered, mutating,
			http.StatusServiceUnavailable, "could not check whether jane may get pods",
		},
		{"a proof that is not due: the validating phase says why", grant, refused, mutating, 0, ""},
	} {
		p := newProving(t)
		r := &usher.Request{
			Phase: usher.Validate, Operation: usher.Create, User: usher.User{Name: "jane"}, Namespace: "shop", Name: "p", Object: usher.TreeObject(object(t, tt.object)),
		}
		if tt.change != nil {
			tt.change(r)
		}
		decider := guard.Wrap(usher.DeciderFunc(allow), guard.Options{May: tt.may, Places: places, Proofs: proofsOf(p.prover, tt.object)})
		d, err := decider.Decide(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if denied := d.Verdict == usher.Deny; denied != (tt.message != "") || d.Code != tt.code || !strings.Contains(d.Message, tt.message) {
			t.Errorf("%s: %s, code %d, %q, want code %d, %q", tt.reason, d.Verdict, d.Code, d.Message, tt.code, tt.message)
		}
	}
}

const pods = `{apiVersion: policy.kcloudlabs.io/v1alpha1, kind: OverridePolicy, metadata: {name: p, namespace: shop}, spec: {
	resourceSelectors: [{apiVersion: v1, kind: Pod}], overrideRules: [{overriders: {plaintext: [{path: /metadata/labels/a, op: add, value: b}]}}]}}`

// proofsOf returns p for policies that need a proof.
func proofsOf(p *proof.Prover, text string) guard.Proofs {
	if strings.Contains(text, "AuthorizationPolicy") {
		return p
	}
	return nil
}
