package transport

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/util/net"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/answer"
	"github.com/usher-dev/usher/internal/jsonpatch"
)

// A review is what the decider says about what a client asks.
type review struct {
	server

	warnings []string
}

// settle runs both phases: the object of r is then the changed one. It reports whether there was a
// change.
func (v *review) settle(r *usher.Request) (bool, error) {
	changed, err := v.mutate(r)
	if err != nil {
		return false, err
	}
	return changed, v.validate(r)
}

func (v *review) mutate(r *usher.Request) (bool, error) {
	d, asked, err := v.ask(usher.Mutate, r)
	if err != nil || !asked {
		return false, err
	}
	operations := answer.Patch(r, d)
	if len(operations) == 0 {
		return false, nil
	}
	tree, err := r.Object.Tree()
	if err != nil {
		return false, err
	}
	tree, effective, err := jsonpatch.Apply(tree, operations)
	if err != nil {
		return false, v.failed(usher.Mutate, fmt.Errorf("apply patch: %w", err))
	}
	r.Object = usher.TreeObject(tree)
	return len(effective) > 0, nil
}

func (v *review) validate(r *usher.Request) error {
	_, _, err := v.ask(usher.Validate, r)
	return err
}

// ask calls the decider, if r is covered. The error is the denial.
func (v *review) ask(phase usher.Phase, r *usher.Request) (d usher.Decision, asked bool, err error) {
	r.Phase = phase
	if !v.options.Covers(r) {
		return d, false, nil
	}
	if r.User, err = v.user(); err != nil {
		return d, false, v.failed(phase, err)
	}
	if !v.options.Covers(r) {
		return d, false, nil
	}
	ctx, cancel := context.WithTimeout(v.request.Context(), v.options.Timeout)
	defer cancel()
	q := *r
	if d, err = answer.Decide(ctx, v.decider, &q, v.options.Log); err != nil {
		return d, false, v.failed(phase, err)
	}
	for _, text := range answer.Warnings(d.Warnings) {
		if !slices.Contains(v.warnings, text) {
			v.warnings = append(v.warnings, text)
		}
	}
	status, err := answer.Denial(&q, d)
	if err != nil {
		return d, false, v.failed(phase, err)
	}
	if status != nil {
		return d, true, &denial{answer.Error(deniedBy(phase), status).ErrStatus}
	}
	return d, true, nil
}

// failed is the denial of a request without a decision, nil if that is ignored.
func (v *review) failed(phase usher.Phase, reason error) error {
	if v.request.Context().Err() != nil {
		return reason
	}
	if v.undecided(reason) {
		return nil
	}
	return &denial{answer.Error(deniedBy(phase), answer.Undecided(reason)).ErrStatus}
}

// undecided logs that there is no decision, and reports whether to ignore that.
func (v *review) undecided(reason error) bool {
	v.options.Log.ErrorContext(v.request.Context(), "no decision was reached", "method", v.request.Method,
		"path", v.request.URL.Path, "ignored", v.options.FailurePolicy == usher.Ignore, "error", reason)
	return v.options.FailurePolicy == usher.Ignore
}

// warn adds the warnings of the decisions to a response, as API servers do.
func (v *review) warn(response *http.Response) {
	for _, text := range v.warnings {
		if header, err := net.NewWarningHeader(299, "-", text); err == nil {
			response.Header.Add("Warning", header)
		}
	}
}

// deniedBy is the name of the webhook of a phase in messages of API servers.
func deniedBy(phase usher.Phase) string {
	return fmt.Sprintf("admission webhook %q", string(phase)+".usher.dev")
}
