package condition

import (
	"context"
	"fmt"

	"github.com/cockroachdb/apd/v3"
	"k8s.io/apimachinery/pkg/util/intstr"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/lang/reference"
	"github.com/usher-dev/usher/internal/rule"
)

// A badge rejects the deletion of a pod if too few running pods of a workload would remain: one
// less than the current count must be enough.
type badge struct {
	target, current *reference.Reference
	limit           amount
	unavailable     bool
	reason          string
}

func compileBadge(b *v1alpha1.PodAvailableBadge) (check, []rule.Problem) {
	const field = "template.podAvailableBadge"
	var found collector
	k := &badge{}
	switch {
	case b.MaxUnavailable != nil:
		k.unavailable = true
		k.limit = compileLimit(field+".maxUnavailable", b.MaxUnavailable, &found)
	case b.MinAvailable != nil:
		k.limit = compileLimit(field+".minAvailable", b.MinAvailable, &found)
	default:
		return idle("pab"), []rule.Problem{warn(field, "neither maxUnavailable nor minAvailable is set: the badge allows everything", "set one of them")}
	}
	name := "maxUnavailable"
	if !k.unavailable && k.limit.percentage {
		// A number of minAvailable is reported as maxUnavailable: so it always was.
		name = "minAvailable"
	}
	k.reason = fmt.Sprintf("Cannot delete this pod, cause of hitting %s(%s)", name, k.limit.Text('f'))
	ref := b.ReplicaReference
	if ref == nil {
		ref = ownerReplicas()
	}
	k.target = found.replicas(field, ref, "targetReplicaPath", ref.TargetReplicaPath)
	k.current = found.replicas(field, ref, "currentReplicaPath", ref.CurrentReplicaPath)
	if found.failed() {
		return nil, found.problems
	}
	return k, found.problems
}

func compileLimit(field string, v *intstr.IntOrString, found *collector) amount {
	limit, err := parseAmount(v)
	if err != nil {
		found.wrong(field, err.Error(), "set a number of pods or a percentage")
	}
	return limit
}

// replicas compiles one of the two references that a ReplicaResourceRefer is.
func (c *collector) replicas(field string, ref *v1alpha1.ReplicaResourceRefer, name, path string) *reference.Reference {
	r, problems := reference.Compile(&v1alpha1.ResourceRefer{From: ref.From, Path: path, K8s: ref.K8s, Http: ref.Http}, reference.ValueSuffix)
	for _, p := range problems {
		if p.Field == "path" {
			p.Field = name
		} else if name != "targetReplicaPath" {
			continue // It was said of the other path.
		}
		p.Field = field + ".replicaReference." + p.Field
		c.problems = append(c.problems, p)
	}
	return r
}

// Run rejects a running pod that is one too few.
func (b *badge) Run(_ context.Context, in *rule.Input) (rule.Outcome, error) {
	running, err := runningPod(in.Object)
	if !running || err != nil {
		return rule.Outcome{}, err
	}
	target, hasTarget, err := b.target.Value(in)
	if err != nil {
		return rule.Outcome{}, err
	}
	current, hasCurrent, err := b.current.Value(in)
	if err != nil || !hasTarget || !hasCurrent {
		return rule.Outcome{}, err
	}
	few, err := b.tooFew(target, current)
	if !few || err != nil {
		return rule.Outcome{}, err
	}
	return rule.Outcome{Verdict: usher.Deny, Message: b.reason}, nil
}

func runningPod(object map[string]any) (bool, error) {
	if pod, err := equal(object["kind"], "Pod"); !pod || err != nil {
		return false, err
	}
	status, _ := object["status"].(map[string]any)
	phase, ok := status["phase"]
	if !ok {
		return false, nil
	}
	return equal(phase, "Running")
}

func (b *badge) tooFew(target, current any) (bool, error) {
	counts := []any{current}
	if b.unavailable || b.limit.percentage {
		counts = append(counts, target)
	}
	for _, replicas := range counts {
		if kind := kindOf(replicas); kind != "a number" {
			return false, fmt.Errorf("count replicas: they are %s, not a number", kind)
		}
	}
	needed := &b.limit.Decimal
	var err error
	if b.limit.percentage {
		if needed, err = arithmetic("*", decimal(target), needed); err != nil {
			return false, err
		}
	}
	if b.unavailable {
		if needed, err = arithmetic("-", decimal(target), needed); err != nil {
			return false, err
		}
	}
	remaining, err := arithmetic("-", decimal(current), apd.New(1, 0))
	if err != nil {
		return false, err
	}
	return needed.Cmp(remaining) > 0, nil
}

// DependsOn implements [rule.Dependent].
func (b *badge) DependsOn(usher.Operation) rule.Dependencies {
	return b.target.DependsOn() | b.current.DependsOn()
}

// Explain implements [rule.Explainer].
func (b *badge) Explain(in *rule.Input) (rule.Reading, error) {
	reading := rule.Reading{Condition: b.String()}
	if running, err := runningPod(in.Object); !running || err != nil {
		return reading, err
	}
	for _, r := range []*reference.Reference{b.target, b.current} {
		value, err := valueOf(r, in)
		if err != nil {
			return reading, err
		}
		reading.Values = append(reading.Values, value)
	}
	if reading.Values[0].Absent || reading.Values[1].Absent {
		return reading, nil
	}
	var err error
	reading.Holds, err = b.tooFew(reading.Values[0].Value, reading.Values[1].Value)
	return reading, err
}

// String is the badge in one line.
func (b *badge) String() string {
	name := "minAvailable"
	if b.unavailable {
		name = "maxUnavailable"
	}
	return fmt.Sprintf("pab %s %s of %s, now %s", name, b.limit.Text('f'), b.target, b.current)
}

// params is empty for a pod that the badge does not cover: a pod without an owner may be deleted.
func (b *badge) params(in *rule.Input) (map[string]any, error) {
	if running, err := runningPod(in.Object); running && err == nil {
		return params(in, b.target, b.current)
	}
	params := map[string]any{}
	if name := b.target.ParamName(); name != "" {
		params[name] = nil
	}
	return params, nil
}

func (b *badge) open() bool { return b.target.Open() || b.current.Open() }
