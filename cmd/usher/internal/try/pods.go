package try

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/explain/text"
	"github.com/usher-dev/usher/internal/printable"
)

// A podChange is what policies do with the pods that a workload makes: they change them, or deny them. Policies are those
// that do.
type podChange struct {
	Policies []usher.PolicyRef `json:"policies,omitempty"`
	Patch    usher.Patch       `json:"patch,omitempty"`
	// Denied is the message of a denial that the workload has no warning about.
	Denied string `json:"denied,omitempty"`
	// Presets are as in a [Judgement].
	Presets []string `json:"presets,omitempty"`

	before, after map[string]any
}

// podChangeOf returns what policies do with the pods of a workload, of which they say what of has; nil for nothing, or if the
// object is none.
func podChangeOf(ctx context.Context, timeout time.Duration, d usher.Decider, q Question, of *Judgement) (*podChange, error) {
	_, pod := workloadOf(q.Request)
	if pod == nil {
		return nil, nil //nolint:nilnil // Most objects have no pods.
	}
	j, err := judgeWithin(ctx, timeout, d, nil, Question{File: q.File, Request: pod, written: true})
	switch {
	case err != nil:
		return nil, err
	case !j.Allowed && !slices.ContainsFunc(of.Rules, func(r ruleResult) bool { return r.PodOf != "" }):
		return &podChange{Denied: cmp.Or(j.Message, j.Reason, "without a message"), Policies: j.policies(usher.Rejected)}, nil
	case !j.Allowed || !j.changed():
		return nil, nil //nolint:nilnil // There is nothing to say.
	}
	return &podChange{Policies: j.policies(usher.Changed), Patch: j.Patch, Presets: j.Presets, before: j.before, after: j.Result}, nil
}

// policies returns the policies with an outcome.
func (j *Judgement) policies(with usher.Outcome) []usher.PolicyRef {
	var all []usher.PolicyRef
	for i := range j.Rules {
		if r := &j.Rules[i]; r.Outcome == with && r.Policy.Name != "" && !slices.Contains(all, r.Policy) {
			all = append(all, r.Policy)
		}
	}
	return all
}

// podsDenied reports whether the object is allowed, and the pods that it makes are denied.
func (j *Judgement) podsDenied() bool {
	return j.Allowed && (j.Pods != nil && j.Pods.Denied != "" || slices.ContainsFunc(j.Rules, func(r ruleResult) bool {
		return slices.ContainsFunc(r.Checks, func(c usher.Check) bool { return c.PodsDenied })
	}))
}

func (c *podChange) print(b *strings.Builder, p cli.Palette) error {
	if c == nil {
		return nil
	}
	if c.Denied != "" {
		fmt.Fprintf(b, "  %s %s\n", cli.Paint(p.Red, "its pods are denied:"), text.Below("  ", c.Denied))
		for _, ref := range c.Policies {
			if kind, _ := api.KindCalled(ref.Kind); kind.ObjectPolicy {
				fmt.Fprintf(b, "  %s with spec.podTemplates: Warn, %s warns of the workload, and with Deny it refuses it\n", cli.Paint(p.Yellow, "hint:"), printable.Line(ref.String()))
			}
		}
		return nil
	}
	names := make([]string, len(c.Policies))
	for i, ref := range c.Policies {
		names[i] = ref.String()
	}
	changes, err := changesOf(c.before, c.after, p)
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "  %s by %s:\n%s", cli.Paint(p.Green, "its pods are changed"), strings.Join(names, ", "), changes)
	printPresets(b, c.Presets, p)
	return nil
}
