package try_test

import (
	"cmp"
	"context"
	"net/http"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/usher/internal/try"
	"github.com/usher-dev/usher/door/doortest"
	"github.com/usher-dev/usher/policytest"
)

// TestCorpusThroughDecide asks usher decide about every case of the corpus: what it prints
// is what the policies decide.
func TestCorpusThroughDecide(t *testing.T) {
	t.Parallel()
	cases, err := policytest.Load("../../../../policytest/testdata/kinitiras", "../../../../policytest/testdata/semantics", "../../../../examples/cases")
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
	j := try.Judge(t.Context(), only{r.Phase, d.decider}, nil, try.Question{File: "-", Request: &mutation})
	answer := doortest.Answer{Verdict: usher.Allow, Warnings: j.Warnings, Object: j.Result}
	if !j.Allowed {
		answer.Verdict, answer.Reason, answer.Message = usher.Deny, j.Reason, j.Message
		answer.Code = max(cmp.Or(j.Code, http.StatusBadRequest), http.StatusBadRequest)
	}
	return answer
}

// only decides in one phase, and allows everything in the other.
type only struct {
	phase usher.Phase
	usher.Decider
}

func (o only) Decide(ctx context.Context, r *usher.Request) (usher.Decision, error) {
	if r.Phase != o.phase {
		return usher.Allowed(), nil
	}
	return o.Decider.Decide(ctx, r)
}
