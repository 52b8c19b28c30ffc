package interpret

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

// workloads are the kinds whose rules Kyverno makes of those for pods, with their groups and versions.
var workloads = map[string]string{
	"DaemonSet": "apps/v1/", "Deployment": "apps/v1/", "StatefulSet": "apps/v1/", "ReplicaSet": "apps/v1/",
	"Job": "batch/v1/", "CronJob": "batch/v1/", "ReplicationController": "v1/",
}

// rules returns the rules of a policy for a kind, with those that Kyverno makes for it.
func (p *Policy) rules(kind string) ([]syntax.Rule, error) {
	own := p.of.Spec.Rules
	if workloads[kind] == "" || !p.Generates() {
		return own, nil
	}
	if list, ok := p.of.Annotations["pod-policies.kyverno.io/autogen-controllers"]; ok && !slices.Contains(strings.Split(list, ","), kind) {
		return own, nil
	}
	var made []syntax.Rule
	for i := range own {
		rule, err := forWorkload(&own[i], kind)
		if err != nil {
			return nil, err
		}
		if rule != nil {
			made = append(made, *rule)
		}
	}
	if len(made) == 0 {
		return own, nil
	}
	all := slices.DeleteFunc(slices.Clone(own), func(r syntax.Rule) bool { return strings.HasPrefix(r.Name, "autogen-") })
	return append(all, made...), nil
}

func blocksOf(m *syntax.Match) []syntax.Block {
	return append(append([]syntax.Block{m.Block}, m.Any...), m.All...)
}

// Generates says that Kyverno makes rules for workloads: for all rules of a policy, or for none.
func (p *Policy) Generates() bool {
	needed := false
	for i := range p.of.Spec.Rules {
		r := &p.of.Spec.Rules[i]
		if r.Generate != nil || r.Mutate != nil && (r.Mutate.PatchesJSON6902 != "" || slices.ContainsFunc(r.Mutate.Foreach, func(f syntax.ForeachMutate) bool { return f.PatchesJSON6902 != "" })) {
			return false
		}
		blocks := blocksOf(&r.Match)
		if r.Exclude != nil {
			blocks = append(blocks, blocksOf(r.Exclude)...)
		}
		for _, b := range blocks {
			of := &b.Resources
			if of.Name != "" || len(of.Names) > 0 || of.Selector != nil || of.Annotations != nil || len(of.Kinds) > 1 && hasPod(of.Kinds) {
				return false
			}
			needed = needed || slices.ContainsFunc(of.Kinds, func(k string) bool { return k == "Pod" || workloads[k] != "" })
		}
	}
	return needed
}

func hasPod(kinds []string) bool {
	return slices.ContainsFunc(kinds, func(k string) bool {
		kind, _, _ := strings.Cut(k[strings.LastIndex(k, "/")+1:], ".")
		return kind == "Pod"
	})
}

func kindsOf(m *syntax.Match) []string {
	var all []string
	for _, b := range blocksOf(m) {
		all = append(all, b.Resources.Kinds...)
	}
	return all
}

// forWorkload returns a rule for a kind of workload, nil if there is none: the same text, with other paths.
func forWorkload(r *syntax.Rule, kind string) (*syntax.Rule, error) {
	excluded := []string{}
	if r.Exclude != nil {
		excluded = kindsOf(r.Exclude)
	}
	if strings.HasPrefix(r.Name, "autogen-") || !hasPod(kindsOf(&r.Match)) || len(excluded) > 0 && !hasPod(excluded) || r.Validate == nil {
		return nil, nil
	}
	raw := maps.Clone(r.Raw)
	prefix, below, keys := "autogen-", "spec.template", []string{"spec", "template"}
	if kind == "CronJob" {
		prefix, below, keys = "autogen-cronjob-", "spec.jobTemplate.spec.template", []string{"spec", "jobTemplate", "spec", "template"}
	}
	name := prefix + r.Name
	raw["name"] = name[:min(len(name), 63)]
	for _, field := range []string{"match", "exclude"} {
		if match, ok := raw[field].(map[string]any); ok {
			raw[field] = forKind(match, kind, field == "match")
		}
	}
	raw["validate"] = deeper(r.Raw["validate"], keys)
	text, err := json.Marshal(raw)
	if err != nil {
		return nil, fmt.Errorf("write a rule: %w", err)
	}
	for _, field := range []string{"spec", "metadata"} {
		for _, object := range []string{"request.object.", "request.oldObject."} {
			text = []byte(strings.ReplaceAll(string(text), object+field, object+below+"."+field))
		}
	}
	changed := map[string]any{}
	if err := json.Unmarshal(text, &changed); err != nil {
		return nil, fmt.Errorf("read a rule: %w", err)
	}
	changed, _ = whole(changed).(map[string]any)
	rule, wrong := syntax.DecodeRule(changed, r.Field)
	if len(wrong) > 0 {
		return nil, &wrong[0]
	}
	return rule, nil
}

// deeper returns a validation whose patterns are below keys.
func deeper(validate any, keys []string) any {
	fields, _ := validate.(map[string]any)
	fields = maps.Clone(fields)
	under := func(pattern any) any {
		for _, key := range slices.Backward(keys) {
			pattern = map[string]any{key: pattern}
		}
		return pattern
	}
	if pattern, ok := fields["pattern"]; ok {
		fields["pattern"] = under(pattern)
	}
	if patterns, ok := fields["anyPattern"].([]any); ok {
		all := make([]any, len(patterns))
		for i := range patterns {
			all[i] = under(patterns[i])
		}
		fields["anyPattern"] = all
	}
	return fields
}

// forKind returns a match with another kind in place of Pod.
func forKind(match map[string]any, kind string, always bool) map[string]any {
	match = maps.Clone(match)
	listed := false
	for _, field := range []string{"any", "all"} {
		blocks, ok := match[field].([]any)
		if !ok || len(blocks) == 0 || listed {
			continue
		}
		listed = true
		all := make([]any, len(blocks))
		for i := range blocks {
			block, _ := blocks[i].(map[string]any)
			all[i] = blockFor(block, kind, kind == "CronJob")
		}
		match[field] = all
	}
	if !listed {
		match = blockFor(match, kind, always)
	}
	return match
}

func blockFor(block map[string]any, kind string, always bool) map[string]any {
	block = maps.Clone(block)
	resources, _ := block["resources"].(map[string]any)
	kinds, _ := resources["kinds"].([]any)
	var texts []string
	for _, k := range kinds {
		text, _ := k.(string)
		texts = append(texts, text)
	}
	if always || hasPod(texts) {
		resources = maps.Clone(resources)
		if resources == nil {
			resources = map[string]any{}
		}
		resources["kinds"] = []any{workloads[kind] + kind}
		block["resources"] = resources
	}
	return block
}
