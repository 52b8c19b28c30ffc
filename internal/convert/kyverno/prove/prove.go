// Package prove compares imported policies with what they were: by the tests that Kyverno's own command runs, and by
// requests that are made of what a policy mentions.
package prove

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/kyverno/interpret"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
	"github.com/usher-dev/usher/internal/convert/proof"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/stall"
)

// Options say how policies are converted, and run.
type Options struct {
	// Convert converts the policies among objects.
	Convert func(context.Context, []convert.Foreign) []convert.Import
	Kinds   *kind.Set
	Limits  rule.Limits
}

// IsTest reports whether an object has tests of Kyverno's command.
func IsTest(object map[string]any) bool { return isOf(object, "Test") }

func isOf(object map[string]any, kind string) bool {
	version, _ := object["apiVersion"].(string)
	return schema.FromAPIVersionAndKind(version, "").Group == "cli.kyverno.io" && object["kind"] == kind
}

// test is a Test of Kyverno's command.
type test struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Policies   []string `json:"policies"`
	Resources  []string `json:"resources"`
	Exceptions []string `json:"exceptions"`
	UserInfo   string   `json:"userinfo"`
	Variables  string   `json:"variables"`
	Values     *values  `json:"values"`
	Context    string   `json:"context"`
	Results    []result `json:"results"`
}

type result struct {
	Policy           string   `json:"policy"`
	Rule             string   `json:"rule"`
	Kind             string   `json:"kind"`
	Resource         string   `json:"resource"`
	Resources        []string `json:"resources"`
	Namespace        string   `json:"namespace"`
	Result           string   `json:"result"`
	Operation        string   `json:"operation"`
	PatchedResource  string   `json:"patchedResource"`
	PatchedResources string   `json:"patchedResources"`
}

func decode(from any, into any) error {
	raw, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		return fmt.Errorf("read the test: %w", err)
	}
	return nil
}

// A prover runs the tests of one file.
type prover struct {
	Options

	file string
	read proof.Read
	test test
	// policies and exceptions are those of the test, resources its objects, and existing those that policies read.
	policies   []convert.Foreign
	exceptions []convert.Foreign
	resources  []map[string]any
	existing   []map[string]any
	values     *values
	user       interpret.User
	// converted has the outcome for a policy with one of its rules.
	converted map[string]*convert.Import
	rows      []proof.Row
}

// Tests runs the tests in an object on what its policies become. Policies deny there, whatever their action is.
func Tests(ctx context.Context, of *convert.Foreign, read proof.Read, o Options) []proof.Row {
	p := prover{Options: o, file: of.File, read: read, converted: map[string]*convert.Import{}}
	err := decode(of.Object, &p.test)
	if err == nil {
		err = p.load()
	}
	if err != nil {
		return []proof.Row{{File: of.File, Name: p.test.Metadata.Name, Outcome: proof.Unjudged, Why: err.Error()}}
	}
	for i := range p.test.Results {
		r := &p.test.Results[i]
		stall.Of(ctx).At(of.File + " " + r.Policy)
		if ctx.Err() != nil {
			break
		}
		p.result(ctx, r)
	}
	return p.rows
}

// objects reads a file beside the test.
func (p *prover) objects(file string) ([]map[string]any, error) {
	objects, _, err := p.read(filepath.Join(filepath.Dir(p.file), file))
	return objects, err
}

// load reads what the test names.
func (p *prover) load() error {
	for _, file := range append(slices.Clone(p.test.Policies), p.test.Exceptions...) {
		objects, err := p.objects(file)
		if err != nil {
			return err
		}
		for _, o := range objects {
			f := convert.Foreign{Object: o, File: file}
			if f.Ref().Kind == "PolicyException" {
				p.exceptions = append(p.exceptions, f)
			} else {
				p.policies = append(p.policies, f)
			}
		}
	}
	for _, file := range p.test.Resources {
		objects, err := p.objects(file)
		if err != nil {
			return err
		}
		p.resources = append(p.resources, objects...)
	}
	if p.test.Context != "" {
		objects, err := p.objects(p.test.Context)
		if err != nil {
			return err
		}
		for _, o := range objects {
			var of struct {
				Spec struct {
					Resources []map[string]any `json:"resources"`
				} `json:"spec"`
			}
			if err := decode(o, &of); err != nil {
				return err
			}
			p.existing = append(p.existing, of.Spec.Resources...)
		}
	}
	p.values = p.test.Values
	if p.test.Variables != "" {
		objects, err := p.objects(p.test.Variables)
		if err != nil {
			return err
		}
		for _, o := range objects {
			p.values = &values{}
			if err := decode(o, p.values); err != nil {
				return err
			}
		}
	}
	return p.loadUser()
}

func (p *prover) loadUser() error {
	if p.test.UserInfo == "" {
		return nil
	}
	objects, err := p.objects(p.test.UserInfo)
	if err != nil {
		return err
	}
	var info struct {
		Roles        []string `json:"roles"`
		ClusterRoles []string `json:"clusterRoles"`
		UserInfo     struct {
			Username string   `json:"username"`
			Groups   []string `json:"groups"`
		} `json:"userInfo"`
	}
	for _, o := range objects {
		if err := decode(o, &info); err != nil {
			return err
		}
	}
	p.user = interpret.User{Name: info.UserInfo.Username, Groups: info.UserInfo.Groups, Roles: info.Roles, ClusterRoles: info.ClusterRoles}
	return nil
}

// result runs a result of the test for each of its objects.
func (p *prover) result(ctx context.Context, r *result) {
	at := slices.IndexFunc(p.policies, func(f convert.Foreign) bool {
		ref := f.Ref()
		return r.Policy == ref.Name || r.Policy == ref.Namespace+"/"+ref.Name
	})
	add := func(of *convert.Foreign, name string, row proof.Row) {
		row.File, row.Name = p.file, strings.Trim(r.Policy+"/"+r.Rule+"/"+name, "/")
		if of != nil {
			row.Policy, row.Object = of.Ref(), of.Object
		}
		p.rows = append(p.rows, row)
	}
	if at < 0 {
		var known []string
		for i := range p.policies {
			known = append(known, p.policies[i].Ref().Name)
		}
		add(nil, "", misnamed(r.Policy, known, "there is no policy %s in its files", r.Policy))
		return
	}
	of := &p.policies[at]
	names := r.Resources
	if r.Resource != "" {
		names = append(names, r.Resource)
	}
	for _, name := range names {
		object, known := p.find(r, name)
		if object == nil {
			add(of, name, misnamed(name, known, "there is no %s %s in its files", r.Kind, name))
			continue
		}
		add(of, name, p.judge(ctx, of, r, object))
	}
	if len(names) == 0 {
		add(of, "", unjudged("it names no object"))
	}
}

func unjudged(format string, args ...any) proof.Row {
	return proof.Row{Outcome: proof.Unjudged, Why: fmt.Sprintf(format, args...)}
}

func text(object map[string]any, field string) string {
	metadata, _ := object["metadata"].(map[string]any)
	text, _ := metadata[field].(string)
	return text
}

// alone returns a policy with one of its rules. Whether Kyverno makes rules for workloads depends on all of them.
func alone(of *convert.Foreign, name string) (*convert.Foreign, bool) {
	spec, _ := of.Object["spec"].(map[string]any)
	rules, ok := spec["rules"].([]any)
	if !ok || name == "" {
		return of, true
	}
	var kept []any
	for _, each := range rules {
		fields, _ := each.(map[string]any)
		if own, _ := fields["name"].(string); slices.Contains(versions(own), name) {
			kept = append(kept, each)
		}
	}
	changed := maps.Clone(of.Object)
	spec = maps.Clone(spec)
	spec["rules"], changed["spec"] = kept, spec
	if policy, wrong := syntax.Decode(of.Object); len(wrong) == 0 && !interpret.Of(policy, nil).Generates() {
		metadata, _ := changed["metadata"].(map[string]any)
		metadata = maps.Clone(metadata)
		annotations, _ := metadata["annotations"].(map[string]any)
		if annotations = maps.Clone(annotations); annotations == nil {
			annotations = map[string]any{}
		}
		annotations["pod-policies.kyverno.io/autogen-controllers"] = "none"
		metadata["annotations"], changed["metadata"] = annotations, metadata
	}
	return &convert.Foreign{Object: changed, File: of.File, Line: of.Line}, len(kept) > 0
}

// versions returns the names of a rule and of those that Kyverno makes of it.
func versions(name string) []string {
	short := func(name string) string { return name[:min(len(name), 63)] }
	return []string{name, short("autogen-" + name), short("autogen-cronjob-" + name)}
}

// convertedAlone converts a policy with one of its rules.
func (p *prover) convertedAlone(ctx context.Context, of *convert.Foreign, name string) (*convert.Foreign, *convert.Import) {
	only, ok := alone(of, name)
	if !ok {
		return nil, nil
	}
	key := of.Ref().String() + " " + name
	if p.converted[key] == nil {
		p.converted[key] = &convert.Import{Of: only}
		for _, i := range p.Convert(ctx, append([]convert.Foreign{*only}, p.exceptions...)) {
			if i.Of.Ref() == of.Ref() {
				p.converted[key] = &i
			}
		}
	}
	return only, p.converted[key]
}

// judge runs a result for an object.
func (p *prover) judge(ctx context.Context, of *convert.Foreign, r *result, object map[string]any) proof.Row {
	name := r.Rule
	if r.PatchedResource+r.PatchedResources != "" && r.Result == "pass" {
		// The object is what all rules make of it.
		name = ""
	}
	only, i := p.convertedAlone(ctx, of, name)
	switch {
	case i == nil:
		return misnamed(r.Rule, rulesOf(of.Object), "%s has no rule %s", r.Policy, r.Rule)
	case len(i.To) == 0 && len(i.Left) > 0:
		return unjudged("it is left out: %s", i.Left[0].What)
	case len(i.To) == 0:
		return unjudged("it becomes no policy")
	}
	asked, err := p.request(only, r, object)
	if err != nil {
		return unjudged("%v", err)
	}
	c, err := caseOf(i, asked, p.Options)
	if err != nil {
		return unjudged("%v", err)
	}
	c.Name = strings.Join([]string{r.Policy, r.Rule, text(object, "name"), r.Result}, " ")
	if r.PatchedResource+r.PatchedResources != "" || mutates(only.Object) {
		err = p.expectPatch(c, r)
	} else {
		err = p.expect(c, only, r, asked)
	}
	if err != nil {
		return unjudged("%v", err)
	}
	c, report := c.RunStrictly(ctx)
	return proof.Of(c, report.Status == policytest.Passed || mutates(only.Object) && tidy(report.Message), report.Message)
}

// tidy reports whether all that differs are lists and maps that are empty: Kyverno's command compares objects without
// them.
func tidy(differences string) bool {
	for line := range strings.SplitSeq(differences, "\n") {
		if !strings.HasSuffix(line, "expected to be absent, got []") && !strings.HasSuffix(line, "expected to be absent, got {}") {
			return false
		}
	}
	return differences != ""
}

func mutates(policy map[string]any) bool {
	if kind, _ := policy["kind"].(string); strings.HasSuffix(kind, "MutatingPolicy") {
		return true
	}
	spec, _ := policy["spec"].(map[string]any)
	rules, _ := spec["rules"].([]any)
	return slices.ContainsFunc(rules, func(each any) bool {
		fields, _ := each.(map[string]any)
		return fields["mutate"] != nil
	})
}
