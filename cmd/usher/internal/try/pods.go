package try

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/served"
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
	// Warnings are those of the denial: an exemption that has expired.
	Warnings []string `json:"warnings,omitempty"`
	// Presets and Invalid are as in a [Judgement].
	Presets []string `json:"presets,omitempty"`
	Invalid []string `json:"invalid,omitempty"`
	// Unselected says that the selector of the workload selects the pods that it makes, and not what policies make of them:
	// its controller makes pods endlessly.
	Unselected bool `json:"unselected,omitempty"`

	before, after map[string]any
}

// podChangeOf returns what policies do with the pods of a workload, of which they say what of has; nil for nothing, or if the
// object is none.
func podChangeOf(ctx context.Context, timeout time.Duration, d usher.Decider, q Question, of *Judgement) (*podChange, error) {
	_, pod := workloadOf(q.Request)
	if pod == nil {
		return nil, nil //nolint:nilnil // Most objects have no pods.
	}
	made := Question{File: q.File, Request: pod, written: true, registered: q.registered}
	if q.raw != nil {
		asWritten := *q.Request
		asWritten.Object = usher.TreeObject(q.raw)
		if _, raw := workloadOf(&asWritten); raw != nil {
			// What is no tree has no pods.
			made.raw, _ = raw.Object.Tree()
		}
	}
	j, err := judgeWithin(ctx, timeout, d, nil, made)
	switch {
	case err != nil:
		return nil, err
	case made.unsent() != "" && !slices.ContainsFunc(slices.Concat(j.policies(usher.Rejected), j.policies(usher.Changed)), isForeign):
		return nil, nil //nolint:nilnil // The policies of Usher have no effect on such pods.
	case !j.Allowed && !slices.ContainsFunc(of.Rules, func(r ruleResult) bool { return r.PodOf != "" }):
		return &podChange{Denied: cmp.Or(j.Message, j.Reason, "without a message"), Warnings: j.Warnings, Policies: j.policies(usher.Rejected)}, nil
	case !j.Allowed || !j.changed() && len(j.Presets) == 0:
		return nil, nil //nolint:nilnil // There is nothing to say.
	}
	change := &podChange{Policies: j.policies(usher.Changed), Patch: j.Patch, Presets: j.Presets, before: j.before, after: j.Result}
	if workload, err := q.Request.Object.Tree(); err == nil && change.after != nil {
		change.Unselected = selects(workload, change.before) && !selects(workload, change.after)
	}
	return change, nil
}

// selects reports whether a workload has a selector, and it selects a pod.
func selects(workload, pod map[string]any) bool {
	of, _, err := unstructured.NestedMap(workload, "spec", "selector")
	if err != nil || len(of) == 0 {
		return false
	}
	if workload["kind"] == "ReplicationController" {
		of = map[string]any{"matchLabels": of}
	}
	var selector metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(of, &selector); err != nil {
		return false
	}
	chosen, err := metav1.LabelSelectorAsSelector(&selector)
	return err == nil && chosen.Matches(labels.Set((&unstructured.Unstructured{Object: pod}).GetLabels()))
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

// unsent returns why policies have no effect on the request; "" if one of Kubernetes denies it, which API servers enforce.
func (j *Judgement) unsent(q *Question) string {
	if slices.ContainsFunc(j.policies(usher.Rejected), isForeign) {
		return ""
	}
	return q.unsent()
}

// podsDenied reports whether the object is allowed, and the pods that it makes are denied.
func (j *Judgement) podsDenied() bool {
	return j.Allowed && (j.Pods != nil && j.Pods.Denied != "" || slices.ContainsFunc(j.Rules, func(r ruleResult) bool {
		return slices.ContainsFunc(r.Checks, func(c usher.Check) bool { return c.PodsDenied })
	}))
}

// refusing returns the policies that deny the pods of the object.
func (j *Judgement) refusing() []usher.PolicyRef {
	if j.Pods != nil && j.Pods.Denied != "" {
		return j.Pods.Policies
	}
	var all []usher.PolicyRef
	for i := range j.Rules {
		r := &j.Rules[i]
		if slices.ContainsFunc(r.Checks, func(c usher.Check) bool { return c.PodsDenied }) && !slices.Contains(all, r.Policy) {
			all = append(all, r.Policy)
		}
	}
	return all
}

// exemption returns the command that exempts a workload of a cluster, all policies of which may not be read, from those that deny
// its pods; empty if these are not of Usher.
func (j *Judgement) exemption() string {
	refusing := j.refusing()
	if !j.podsDenied() || len(j.LeftOut) == 0 || len(refusing) == 0 || slices.ContainsFunc(refusing, isForeign) {
		return ""
	}
	return served.Exempt(j.Name.Kind, j.Name.Namespace, j.Name.Name, "")
}

// isForeign reports whether a policy is of a kind of Kubernetes, and not of Usher.
func isForeign(ref usher.PolicyRef) bool {
	kind, ok := api.KindCalled(ref.Kind)
	return !ok || kind.Foreign
}

// nameAll names policies.
func nameAll(refs []usher.PolicyRef) string {
	names := make([]string, len(refs))
	for i, ref := range refs {
		names[i] = ref.String()
	}
	return strings.Join(names, ", ")
}

func (c *podChange) print(b *strings.Builder, p cli.Palette) error {
	if c == nil {
		return nil
	}
	if c.Denied != "" {
		fmt.Fprintf(b, "  %s %s\n", cli.Paint(p.Red, "its pods are denied:"), text.Below("  ", c.Denied))
		for _, warning := range c.Warnings {
			fmt.Fprintf(b, "  %s %s\n", cli.Paint(p.Yellow, "warning:"), text.Below("  ", warning))
		}
		for _, ref := range c.Policies {
			if kind, _ := api.KindCalled(ref.Kind); kind.ObjectPolicy {
				fmt.Fprintf(b, "  %s with spec.podTemplates: Warn, %s warns of the workload, and with Deny it refuses it\n", cli.Paint(p.Yellow, "hint:"), printable.Line(ref.String()))
			}
		}
		return nil
	}
	if c.after == nil {
		printPresets(b, c.Presets, p)
		return nil
	}
	changes, err := changesOf(c.before, c.after, p)
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "  %s by %s:\n%s", cli.Paint(p.Green, "its pods are changed"), nameAll(c.Policies), changes)
	printInvalid(b, c.Invalid, p)
	printPresets(b, c.Presets, p)
	if c.Unselected {
		fmt.Fprintf(b, "  %s its pods no longer match spec.selector: the controller makes pods endlessly\n", cli.Paint(p.Red, "error:"))
	}
	return nil
}
