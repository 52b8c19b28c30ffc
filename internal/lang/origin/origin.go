// Package origin compiles origin overriders: changes written as the Kubernetes types
// that they change.
//
// The entries of one rule act one after the other, each on what those before have left.
// Each writes one field as a whole, and null where the entry has no value.
package origin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/rule"
)

// Compile returns the program of entries. Fields of problems are relative to the
// overriders, such as origin[0].type.
//
// The program is never nil. It always fails if an entry cannot be executed; entries that are merely
// wrong, such as an invalid toleration, are executed and have an Error problem.
func Compile(entries []v1alpha1.OverrideRuleOrigin) (rule.Program, []rule.Problem) {
	p := &program{}
	var problems []rule.Problem
	names := make([]string, len(entries))
	for i := range entries {
		e := &entries[i]
		field := fmt.Sprintf("origin[%d]", i)
		found := check(e)
		s, err := compile(e)
		if err != nil {
			found = append(found, err.problem())
			if p.err == nil {
				p.err = fmt.Errorf("%s: %w", field, err)
			}
		}
		for _, problem := range found {
			problem.Field = field + "." + problem.Field
			problems = append(problems, problem)
		}
		p.steps = append(p.steps, s)
		names[i] = describe(e)
	}
	p.text = strings.Join(names, ", ")
	return p, append(problems, conflicts(entries)...)
}

// A step applies one entry to a draft. It writes with [draft.set].
type step func(d *draft) error

// compile returns the step of one entry, or why it cannot be taken.
func compile(e *v1alpha1.OverrideRuleOrigin) (step, *flaw) {
	switch e.Type {
	case v1alpha1.OriginAnnotations:
		return mapStep(e, inMetadata("annotations"), e.Annotations)
	case v1alpha1.OriginLabels:
		return mapStep(e, inMetadata("labels"), e.Labels)
	case v1alpha1.OriginNodeSelector:
		return mapStep(e, inPod("nodeSelector"), e.NodeSelector)
	case v1alpha1.OriginTolerations:
		return tolerationStep(e)
	case v1alpha1.OriginHostNetwork:
		return replaceStep(e, inPod("hostNetwork"), e.HostNetwork)
	case v1alpha1.OriginSchedulerName:
		return replaceStep(e, inPod("schedulerName"), e.SchedulerName)
	case v1alpha1.OriginAffinity:
		return replaceStep(e, inPod("affinity"), e.Affinity)
	case v1alpha1.OriginTopologySpreadConstraints:
		return replaceStep(e, inPod("topologySpreadConstraints"), e.TopologySpreadConstraints)
	case v1alpha1.OriginResourceRequirements:
		return replaceStep(e, inContainer(e.ContainerCount), e.ResourceRequirements)
	case v1alpha1.OriginResourceOversell:
		return oversellStep(e)
	case "":
		return nil, &flaw{severity: rule.Error, field: "type", what: "the type is missing", do: "say what to change, such as labels"}
	}
	return nil, &flaw{severity: rule.Error, field: "type", what: fmt.Sprintf("unknown type %q", e.Type), do: "use one of " + types()}
}

func types() string {
	return "annotations, labels, nodeSelector, hostNetwork, schedulerName, resourceRequirements, resourceOversell, affinity, tolerations, topologySpreadConstraints"
}

// describe is the entry in a stable phrase.
func describe(e *v1alpha1.OverrideRuleOrigin) string {
	words := []string{string(e.Operation), string(e.Type)}
	if e.Replace {
		words = append(words, "as a whole")
	}
	if e.Type == v1alpha1.OriginResourceRequirements || e.Type == v1alpha1.OriginResourceOversell {
		words = append(words, fmt.Sprintf("of container %d", e.ContainerCount))
	}
	return strings.TrimSpace(strings.Join(words, " "))
}

// A flaw is why an entry can never be carried out: an error when it is tried, and a
// problem before.
type flaw struct {
	severity        rule.Severity
	field, what, do string
}

func (f *flaw) Error() string { return f.what }

func (f *flaw) problem() rule.Problem {
	return rule.Problem{Severity: f.severity, Field: f.field, What: f.what, Do: f.do}
}

type program struct {
	steps []step
	err   error
	text  string
}

// Run runs the steps in order.
func (p *program) Run(_ context.Context, in *rule.Input) (rule.Outcome, error) {
	if p.err != nil {
		return rule.Outcome{}, p.err
	}
	d := draft{object: in.Object}
	for i, s := range p.steps {
		if err := s(&d); err != nil {
			return rule.Outcome{}, fmt.Errorf("origin[%d]: %w", i, err)
		}
	}
	return rule.Outcome{Patch: d.patch}, nil
}

// DependsOn implements [rule.Dependent].
func (p *program) DependsOn(usher.Operation) rule.Dependencies { return 0 }

func (p *program) String() string { return p.text }

// A draft is an object together with the values written to it.
type draft struct {
	object map[string]any
	patch  usher.Patch
}

// written returns the value written to path before.
func (d *draft) written(path string) (any, bool) {
	for i := range d.patch {
		if d.patch[i].Path == path {
			return d.patch[i].Value, true
		}
	}
	return nil, false
}

// set writes a field. A later write replaces an earlier one.
func (d *draft) set(path string, value any) {
	for i := range d.patch {
		if d.patch[i].Path == path {
			d.patch[i].Value = value
			return
		}
	}
	d.patch = append(d.patch, usher.PatchOp{Op: "replace", Path: path, Value: value})
}

// A target finds the field that an entry writes: its JSON pointer and its current value.
type target func(d *draft) (path string, value any, err error)

// inMetadata is a field of the metadata of any kind of object.
func inMetadata(name string) target {
	path := "/metadata/" + name
	return func(d *draft) (string, any, error) {
		if value, ok := d.written(path); ok {
			return path, value, nil
		}
		metadata, _ := d.object["metadata"].(map[string]any)
		return path, metadata[name], nil
	}
}

// inPod is a field of the spec of a pod, also of the pod template of a Deployment.
func inPod(name string) target {
	return inPodSpec("/"+name, func(spec map[string]any) any { return spec[name] })
}

// inContainer is the resources of a container. The value is nil when there is no such
// container; writing it then fails.
func inContainer(index int) target {
	return inPodSpec(fmt.Sprintf("/containers/%d/resources", index), func(spec map[string]any) any {
		containers, _ := spec["containers"].([]any)
		if index < 0 || index >= len(containers) {
			return nil
		}
		container, _ := containers[index].(map[string]any)
		return container["resources"]
	})
}

// inPodSpec is the field at a path in the spec of a pod, or of a template; read returns its value there.
func inPodSpec(at string, read func(spec map[string]any) any) target {
	own, template := "/spec"+at, "/spec/template/spec"+at
	return func(d *draft) (string, any, error) {
		spec, templated, err := d.podSpec()
		if err != nil {
			return "", nil, err
		}
		path := own
		if templated {
			path = template
		}
		if value, ok := d.written(path); ok {
			return path, value, nil
		}
		return path, read(spec), nil
	}
}

var errKind = errors.New("unsupported kind type error")

// podSpec returns the spec of the pod, nil if there is none, and whether it is that of a
// template.
func (d *draft) podSpec() (spec map[string]any, templated bool, err error) {
	apiVersion, _ := d.object["apiVersion"].(string)
	kind, _ := d.object["kind"].(string)
	spec, _ = d.object["spec"].(map[string]any)
	switch {
	case kind == "Pod" && apiVersion == "v1":
		return spec, false, nil
	case kind == "Deployment" && isWorkloads(apiVersion):
		template, _ := spec["template"].(map[string]any)
		podSpec, _ := template["spec"].(map[string]any)
		return podSpec, true, nil
	}
	return nil, false, fmt.Errorf("%w: %s %s is neither a Pod nor a Deployment", errKind, apiVersion, kind)
}

func isWorkloads(apiVersion string) bool {
	gv, err := schema.ParseGroupVersion(apiVersion)
	return err == nil && (gv.Group == "apps" || gv.Group == "extensions")
}
