package try_test

import (
	"cmp"
	"context"
	"net/http"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/usher/internal/try"
	doors "github.com/usher-dev/usher/internal/answer"
	"github.com/usher-dev/usher/internal/door/doortest"
	"github.com/usher-dev/usher/internal/policytest"
)

// TestCorpusThroughDecide asks usher decide about every case of the corpus: what it prints
// is what the policies decide.
func TestCorpusThroughDecide(t *testing.T) {
	t.Parallel()
	cases, err := policytest.Load("../../../../internal/policytest/testdata/kinitiras", "../../../../internal/policytest/testdata/semantics", "../../../../examples/cases")
	if err != nil {
		t.Fatal(err)
	}
	n := doortest.Cases(t, cases, doortest.CaseOptions{Rewritten: true}, func(_ *testing.T, d usher.Decider) doortest.Door { return judged{d} })
	if n < 600 {
		t.Errorf("%d cases were sent, fewer than 600", n)
	}
}

// A judged is usher decide, which is asked about one phase.
type judged struct{ decider usher.Decider }

func (d judged) Send(t *testing.T, r *usher.Request) doortest.Answer {
	t.Helper()
	mutation := *r
	mutation.Phase = usher.Mutate
	decider := &only{phase: r.Phase, decider: d.decider}
	j := try.Judge(t.Context(), decider, nil, try.Question{File: "-", Request: &mutation})
	answer := doortest.Answer{Verdict: usher.Allow, Warnings: j.Warnings, Object: j.Result}
	if !j.Allowed {
		if j.Message != decider.decision.Message {
			t.Errorf("the message is %q, that of the decision %q", j.Message, decider.decision.Message)
		}
		answer.Verdict, answer.Reason, answer.Message = usher.Deny, j.Reason, j.Message
		// Doors add the policies, which the command shows as rules.
		denial, err := doors.Denial(r, decider.decision)
		if err != nil {
			t.Fatal(err)
		}
		if denial != nil {
			answer.Message = denial.Message
		}
		answer.Code = max(cmp.Or(j.Code, http.StatusBadRequest), http.StatusBadRequest)
	}
	return answer
}

// An only decides in one phase, and allows everything in the other. It remembers what it decided.
type only struct {
	phase    usher.Phase
	decider  usher.Decider
	decision usher.Decision
}

func (o *only) Decide(ctx context.Context, r *usher.Request) (usher.Decision, error) {
	if r.Phase != o.phase {
		return usher.Allowed(), nil
	}
	var err error
	o.decision, err = o.decider.Decide(ctx, r)
	return o.decision, err
}
