package policytest

import (
	"context"
	"encoding/json"
	"fmt"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/compile/authorization"
	engine "github.com/usher-dev/usher/internal/engine/authz"
	index "github.com/usher-dev/usher/internal/index/authz"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// An accessStage is what the cases of a suite run on: its policies, compiled.
type accessStage struct {
	rules   []*authz.Rule
	options engine.Options
	engine  *engine.Engine
	// broken are the problems that keep policies from being enforced as written.
	broken []string
}

func newAccessStage(s *AccessSuite, named *references) (*accessStage, error) {
	policies, err := s.policies(named)
	if err != nil {
		return nil, err
	}
	st := &accessStage{}
	compiled, problems := compile.All(policies)
	for _, p := range rule.Errors(problems) {
		st.broken = append(st.broken, p.String())
	}
	st.rules = compile.Access(compiled)
	if s.ProtectedUsers != nil {
		protected, err := s.protectedUsers()
		if err != nil {
			return nil, err
		}
		st.options.WithoutBuiltin, st.options.ProtectedUsers = true, func() []authz.Subject { return protected }
	}
	st.engine = engine.New(index.New(st.rules), st.options)
	return st, nil
}

// with is the stage with other rules.
func (st *accessStage) with(rules []*authz.Rule) *accessStage {
	return &accessStage{rules: rules, options: st.options, engine: engine.New(index.New(rules), st.options)}
}

func (st *accessStage) faults(ctx context.Context, c *AccessCase) []string {
	if len(st.broken) > 0 {
		return append([]string{notRun}, st.broken...)
	}
	x, d, err := st.answer(ctx, c)
	if err != nil {
		return []string{err.Error()}
	}
	return c.faults(x, d)
}

// answer decides the request of a case, and explains that.
func (st *accessStage) answer(ctx context.Context, c *AccessCase) (engine.Explanation, usher.Decision, error) {
	d, err := st.engine.Decide(ctx, c.Request())
	if err != nil {
		return engine.Explanation{}, usher.Decision{}, fmt.Errorf("decide: %w", err)
	}
	x, err := st.engine.Explain(ctx, c.Request())
	if err != nil {
		return engine.Explanation{}, usher.Decision{}, fmt.Errorf("explain: %w", err)
	}
	if x.Decision.Verdict != d.Verdict || x.Decision.Message != d.Message {
		return x, d, fmt.Errorf("the explanation is of another decision: %s %q, not %s %q", verdict(x.Decision), x.Decision.Message, verdict(d), d.Message)
	}
	return x, d, nil
}

func (s *AccessSuite) protectedUsers() ([]authz.Subject, error) {
	written := make([]usherv1alpha1.Subject, len(s.ProtectedUsers))
	for i, raw := range s.ProtectedUsers {
		if err := decodeStrict(raw, &written[i]); err != nil {
			return nil, fmt.Errorf("protectedUsers[%d]: %w", i, err)
		}
	}
	subjects, problems := authorization.Subjects("protectedUsers", written)
	if len(problems) > 0 {
		return nil, fmt.Errorf("protectedUsers: %s", problems[0])
	}
	return subjects, nil
}

// policies are those of the suite, decoded like policies of a cluster.
func (s *AccessSuite) policies(named *references) ([]api.Policy, error) {
	var policies []api.Policy
	for i, raw := range s.Policies {
		documents, err := s.documents(raw, named)
		for _, document := range documents {
			var policy api.Policy
			if policy, err = api.Decode(document); err != nil {
				break
			}
			policies = append(policies, policy)
		}
		if err != nil {
			return nil, fmt.Errorf("policies[%d]: %w", i, err)
		}
	}
	return policies, nil
}

// documents are the policies of one entry: a file, a whole policy, or the short form.
func (s *AccessSuite) documents(raw json.RawMessage, named *references) ([][]byte, error) {
	var file string
	if json.Unmarshal(raw, &file) == nil {
		read, err := named.read(s.file, file)
		if err != nil {
			return nil, err
		}
		documents := make([][]byte, len(read.documents))
		for i, d := range read.documents {
			documents[i] = d.json
		}
		return documents, named.use(len(documents))
	}
	if isObject(raw) {
		return [][]byte{raw}, nil
	}
	document, err := inFull(raw)
	return [][]byte{document}, err
}

// inFull writes a policy out that is given in short: its name, namespace and what stands in
// its spec, all on one level, with conditions that are only expressions, and selectors as
// labels and fields.
func inFull(raw json.RawMessage) ([]byte, error) {
	spec := map[string]any{}
	if err := json.Unmarshal(raw, &spec); err != nil {
		return nil, err
	}
	metadata := map[string]any{"name": spec["name"]}
	kind := "ClusterAuthorizationPolicy"
	if namespace, ok := spec["namespace"]; ok {
		kind, metadata["namespace"] = "AuthorizationPolicy", namespace
		if spec["tier"] == string(usherv1alpha1.TierNamespace) {
			delete(spec, "tier")
		}
	}
	selectors := map[string]any{}
	for _, key := range []string{"labels", "fields"} {
		if value, ok := spec[key]; ok {
			selectors[key] = value
			delete(spec, key)
		}
	}
	if len(selectors) > 0 {
		spec["selectors"] = selectors
	}
	for _, key := range []string{"when", "unless"} {
		conditions, _ := spec[key].([]any)
		for i, condition := range conditions {
			if text, ok := condition.(string); ok {
				conditions[i] = map[string]any{"cel": text}
			}
		}
	}
	delete(spec, "name")
	delete(spec, "namespace")
	return json.Marshal(map[string]any{
		"apiVersion": usherv1alpha1.GroupVersion.String(), "kind": kind, "metadata": metadata, "spec": spec,
	})
}
