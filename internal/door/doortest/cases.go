package doortest

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/answer"
	"github.com/usher-dev/usher/internal/jsonpatch"
	"github.com/usher-dev/usher/internal/policytest"
)

// CaseOptions are the limits of a door. The zero value is a door without limits.
type CaseOptions struct {
	// Unsent, if not nil, returns why no caller of the door can make a request; empty if one can.
	Unsent func(r *usher.Request) string
	// Stored, if not nil, returns an object as the callers of the door see it, and false if they
	// cannot have it. It is applied before objects are compared.
	Stored func(object map[string]any) (map[string]any, bool)
	// DeniedBy, if not nil, is the prefix in the messages that the callers of the door get, such as
	// admission webhook "a.example.com".
	DeniedBy func(usher.Phase) string
	// Verbatim reports that the callers of the door get denials and annotations of Kubernetes' own
	// policies as they get them of an API server.
	Verbatim bool
	// AuditKey, if not nil, returns the key that an annotation has in the audit log; otherwise the
	// callers of the door get none.
	AuditKey func(usher.Phase, string) string
	// Rewritten reports that requests arrive in a different form: the decision about the request
	// that arrived is compared.
	Rewritten bool
}

// Cases sends the requests of test cases through doors, one for each case, and compares the
// response with the decision of the case's policies: verdict, code, reason, message, warnings,
// annotations for the audit log, and the resulting object. It returns how many were sent.
func Cases(t *testing.T, cases []*policytest.Case, o CaseOptions, open func(t *testing.T, d usher.Decider) Door) int {
	t.Helper()
	var sent, unsent int
	var mu sync.Mutex
	t.Run("cases", func(t *testing.T) {
		for _, c := range cases {
			t.Run(c.Name, func(t *testing.T) {
				t.Parallel()
				reason := sendCase(t, c, o, open)
				mu.Lock()
				defer mu.Unlock()
				if reason == "" {
					sent++
					return
				}
				unsent++
				t.Skip(reason)
			})
		}
	})
	t.Logf("%d cases sent, %d that nobody can send here", sent, unsent)
	return sent
}

// sendCase sends one case, or returns why that is not possible.
func sendCase(t *testing.T, c *policytest.Case, o CaseOptions, open func(t *testing.T, d usher.Decider) Door) string {
	t.Helper()
	if c.Skip != "" {
		return c.Skip
	}
	setup, err := c.Setup(t.Context())
	if err != nil {
		return "the case cannot be set up: " + err.Error()
	}
	defer setup.Close()
	r, err := c.Request.For(c.Phase)
	if err != nil {
		t.Fatal(err)
	}
	r.UID = "5b8aeba9-d75c-4296-9469-81ab0953579a"
	if o.Unsent != nil {
		if reason := o.Unsent(r); reason != "" {
			return reason
		}
	}
	w := &witness{decider: setup.Decider}
	got := open(t, w).Send(t, r)
	seen, decision := w.saw()
	if seen == nil {
		t.Fatal("the decider was not asked")
	}
	if !o.Rewritten {
		if diff := cmp.Diff(plain(t, r), plain(t, seen), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("-sent +seen:\n%s", diff)
		}
	}
	if native(c) {
		same(t, setup.Decider, r, decision)
	}
	want := o.wanted(t, seen, decision)
	if want.Verdict == usher.Deny {
		// The result is not used.
		want.Object, got.Object = nil, nil
	}
	for _, a := range []*Answer{&want, &got} {
		if o.Stored != nil && a.Object != nil {
			stored, ok := o.Stored(a.Object)
			if !ok {
				return "the result is no object of its kind"
			}
			a.Object = stored
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("-decided +answered:\n%s", diff)
	}
	return ""
}

// wanted is the response that a decision about a request must have.
func (o *CaseOptions) wanted(t *testing.T, r *usher.Request, d usher.Decision) Answer {
	t.Helper()
	want := Answer{Verdict: usher.Allow, Warnings: answer.Warnings(d.Warnings), Object: tree(t, r.Object), Audit: o.audit(r.Phase, d.Audit)}
	denial, err := answer.Denial(r, d)
	if err != nil {
		t.Fatal(err)
	}
	if denial != nil {
		switch {
		case o.Verbatim && answer.Native(&d) && r.Phase == usher.Mutate:
			// Policies that mutate do not name the object.
		case o.Verbatim && answer.Native(&d):
			denial.Message = apierrors.NewForbidden(r.Resource.GroupResource(), r.Name, errors.New(d.Message)).ErrStatus.Message
		case o.DeniedBy != nil:
			denial = &answer.Error(o.DeniedBy(r.Phase), denial).ErrStatus
		}
		want.Verdict, want.Code, want.Reason, want.Message = usher.Deny, denial.Code, string(denial.Reason), denial.Message
		if want.Code < http.StatusBadRequest {
			want.Code = http.StatusBadRequest
		}
		return want
	}
	if want.Object, _, err = jsonpatch.Apply(want.Object, answer.Patch(r, d)); err != nil {
		t.Fatal(err)
	}
	return want
}

// audit returns annotations as the callers of the door get them.
func (o *CaseOptions) audit(phase usher.Phase, annotations map[string]string) map[string]string {
	if o.AuditKey == nil {
		return nil
	}
	told := map[string]string{}
	own := map[string]string{}
	for key, value := range annotations {
		if o.Verbatim && strings.Contains(key, "/") {
			told[key] = value
		} else {
			own[key] = value
		}
	}
	for key, value := range answer.Audit(own) {
		told[o.AuditKey(phase, key)] = value
	}
	return told
}

// native reports whether the policies of a case are Kubernetes' own, which see objects and options
// with all their fields: their decision must not depend on the door.
func native(c *policytest.Case) bool {
	return len(c.Policies) > 0 && !slices.ContainsFunc(c.Policies, func(p map[string]any) bool {
		apiVersion, _ := p["apiVersion"].(string)
		return !strings.HasPrefix(apiVersion, admissionv1.GroupName+"/")
	})
}

// same fails the test if a decider decides r in another way than it has decided what arrived.
func same(t *testing.T, decider usher.Decider, r *usher.Request, arrived usher.Decision) {
	t.Helper()
	asked, err := decider.Decide(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	said := func(d usher.Decision) Answer {
		return Answer{Verdict: d.Verdict, Code: d.Code, Reason: d.Reason, Message: d.Message, Warnings: d.Warnings, Audit: d.Audit}
	}
	if diff := cmp.Diff(said(asked), said(arrived), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("-asked directly +arrived through the door:\n%s", diff)
	}
}

// A witness is a decider that records the last request and its decision.
type witness struct {
	decider usher.Decider

	mu       sync.Mutex
	request  *usher.Request
	decision usher.Decision
}

// Decide implements [usher.Decider].
func (w *witness) Decide(ctx context.Context, r *usher.Request) (usher.Decision, error) {
	d, err := w.decider.Decide(ctx, r)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.request, w.decision = r, d
	return d, err
}

func (w *witness) saw() (*usher.Request, usher.Decision) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.request, w.decision
}
