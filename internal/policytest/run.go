package policytest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/fact"
	facthttp "github.com/usher-dev/usher/fact/http"
	"github.com/usher-dev/usher/fact/object"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/compile/guard"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/jsonpatch"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/stall"
)

// caseTimeout limits one case.
const caseTimeout = 30 * time.Second

// A Status is the status of a case.
type Status string

// The statuses.
const (
	Passed  Status = "passed"
	Failed  Status = "failed"
	Skipped Status = "skipped"
)

// A Report is the result of one case.
type Report struct {
	Name   string `json:"name"`
	File   string `json:"file"`
	Status Status `json:"status"`
	// Message is why the case failed, one fault a line, or why it was skipped.
	Message string        `json:"message"`
	Took    time.Duration `json:"-"`
}

// notRun begins the message of a case whose policies cannot be enforced as written.
const notRun = "not run: a policy does not compile"

// NotRun reports whether the case failed because a policy does not compile, of which Message tells, and not
// because of an answer.
func (r *Report) NotRun() bool { return r.Status == Failed && strings.HasPrefix(r.Message, notRun) }

// Run decides the request of the case and compares the answer. It listens on a loopback
// port while it runs if the case has HTTP stubs. Several cases can run at the same time.
func (c *Case) Run(ctx context.Context) Report { return c.Test().Run(ctx) }

// RunStrictly is like Run. A case that expects that a request is allowed, for which there is no policy, is returned as
// one that says so: it would not be vacuous.
func (c *Case) RunStrictly(ctx context.Context) (*Case, Report) {
	if c.Expect != nil && c.Expect.Allowed != nil && *c.Expect.Allowed {
		strict, expect := *c, *c.Expect
		expect.NoMatch = true
		strict.Expect = &expect
		if report := strict.Run(ctx); report.Status == Passed {
			return &strict, report
		}
	}
	return c, c.Run(ctx)
}

// Test returns the test of the case.
func (c *Case) Test() Test {
	return Test{Name: c.Name, File: c.File, Skip: c.Skip, timeout: c.timeout, faults: c.faults, admission: c}
}

// A Setup is what a case runs on, for callers that send the request in another way than [Case.Run],
// or inspect the result.
type Setup struct {
	Decider  usher.Decider
	Compiled []compile.Compiled
	Rules    []rule.Rule
	Facts    fact.Resolver
	// Close stops the HTTP services of the case.
	Close func()
}

// Setup prepares the case.
func (c *Case) Setup(ctx context.Context) (*Setup, error) {
	s, err := c.prepare(ctx)
	if err != nil {
		return nil, err
	}
	return &Setup{Decider: s.decider, Compiled: s.compiled, Rules: compile.Order(s.compiled), Facts: s.facts, Close: s.close}, nil
}

// faults are all the ways in which the case does not hold.
func (c *Case) faults(ctx context.Context) []string {
	return c.judge(ctx, func(s *stage, a answer) []string {
		e := c.Expected()
		if broken := s.broken(); len(broken) > 0 && !e.Panics && !e.expectsBroken() {
			return append([]string{notRun + "; correct it, or expect code: 500 if that is the point"}, broken...)
		}
		faults := e.faults(a)
		if len(faults) == 0 {
			return s.vacuous(c, a)
		}
		if !a.matched() && a.decision.Verdict != usher.Deny {
			faults = append(faults, s.mismatches(c)...)
		}
		return append(faults, s.remarks()...)
	})
}

// wrongAnswers are faults without those that say that an answer proves nothing.
func (c *Case) wrongAnswers(ctx context.Context) []string {
	return c.judge(ctx, func(_ *stage, a answer) []string { return c.Expected().faults(a) })
}

// judge returns what verdict says of the answer to the case, or why there is no answer.
func (c *Case) judge(ctx context.Context, verdict func(*stage, answer) []string) []string {
	s, err := c.prepare(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	defer s.close()
	a, err := s.decide(ctx, c)
	if err != nil {
		return []string{err.Error()}
	}
	return verdict(s, a)
}

// A stage is what a case runs on: its stored policies, compiled, and its facts.
type stage struct {
	stubs    *stubServer
	decider  usher.Decider
	facts    fact.Resolver
	compiled []compile.Compiled
	options  compile.Options
	refusals []string
}

func (s *stage) close() {
	if s.stubs != nil {
		s.stubs.close()
	}
}

func (c *Case) prepare(ctx context.Context) (*stage, error) {
	s := &stage{options: compile.Options{Limits: c.Limits}}
	if err := s.store(ctx, c); err != nil {
		s.close()
		return nil, err
	}
	var err error
	if s.facts, err = c.Facts(); err != nil {
		s.close()
		return nil, err
	}
	e := engine.New(index.New(compile.Order(s.compiled)), s.facts, engine.Options{
		FailurePolicy: usher.Fail,
		RuleTimeout:   caseTimeout,
		Now:           c.clock(),
	})
	s.decider = guard.Wrap(e, guard.Options{Compile: s.options})
	return s, nil
}

// Facts returns a resolver of what the case has besides its request: the objects that exist, what users may do, and
// services on loopback addresses.
func (c *Case) Facts() (fact.Resolver, error) {
	access, err := c.authorizer()
	if err != nil {
		return nil, err
	}
	return fact.Resolvers{
		fact.Objects:   object.FromTrees(c.cluster()),
		fact.Requests:  facthttp.New(facthttp.Options{AllowLocal: true}),
		fact.Questions: fact.Access(access),
	}, nil
}

// clock returns the clock of the case, nil for that of the process.
func (c *Case) clock() func() time.Time {
	if c.Now == nil {
		return nil
	}
	return func() time.Time { return *c.Now }
}

// cluster returns the objects that exist. An API server refuses requests in a namespace that does
// not: it exists even if the case does not have it.
func (c *Case) cluster() []map[string]any {
	r, err := c.Request.For(c.Phase)
	if err != nil || r.Namespace == "" {
		return c.Objects
	}
	namespace := object.Namespace(r.Namespace)
	if r.Resource.Resource == "namespaces" && c.Request.OldObject != nil {
		namespace = c.Request.OldObject
	}
	return append([]map[string]any{namespace}, c.Objects...)
}

// store adds the policies of the case to those of the engine.
func (s *stage) store(ctx context.Context, c *Case) error {
	written, err := json.Marshal(c.Policies)
	if err != nil {
		return fmt.Errorf("encode policies: %w", err)
	}
	if len(c.HTTP) > 0 || strings.Contains(string(written), stubURL) {
		if s.stubs, err = startStubs(ctx, c.HTTP); err != nil {
			return err
		}
		written = []byte(strings.ReplaceAll(string(written), stubURL, s.stubs.url))
	}
	var documents []json.RawMessage
	if err := json.Unmarshal(written, &documents); err != nil {
		return fmt.Errorf("decode policies: %w", err)
	}
	if err := c.replace(documents); err != nil {
		return err
	}
	work := stall.Of(ctx)
	for i, document := range documents {
		if work != nil {
			metadata, _ := c.Policies[i]["metadata"].(map[string]any)
			work.At(fmt.Sprint(c.Policies[i]["kind"], " ", metadata["name"]))
		}
		stored := c.memo.stored(ctx, s.options, document, c.renders())
		if stored.err != nil {
			return fmt.Errorf("policies[%d]: %w", i, stored.err)
		}
		s.refusals = append(s.refusals, stored.refusals...)
		s.compiled = append(s.compiled, stored.compiled)
	}
	return nil
}

// renders reports whether policies pass through policy admission before they are stored.
func (c *Case) renders() bool { return c.RenderPolicies == nil || *c.RenderPolicies }

// admit sends a policy through policy admission and returns it as it would be stored. A policy that
// is denied is returned as written: clusters can have policies that were stored without policy
// admission.
func (s *stage) admit(ctx context.Context, written []byte) ([]byte, error) {
	admission := guard.Wrap(usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
		return usher.Allowed(), nil
	}), guard.Options{Compile: s.options})
	object := usher.RawObject(written)
	for _, phase := range []usher.Phase{usher.Mutate, usher.Validate} {
		tree, err := object.Tree()
		if err != nil {
			return nil, err
		}
		metadata, _ := tree["metadata"].(map[string]any)
		namespace, _ := metadata["namespace"].(string)
		r, err := (&Request{Operation: usher.Create, Namespace: namespace, Object: tree}).For(phase)
		if err != nil {
			return nil, err
		}
		d, err := admission.Decide(ctx, r)
		if err != nil {
			return nil, fmt.Errorf("admit policy: %w", err)
		}
		if d.Verdict == usher.Deny {
			s.refusals = append(s.refusals, fmt.Sprintf("note: policy %s is refused by policy admission: %s", r.Name, cmp.Or(d.Message, d.Reason)))
			return written, nil
		}
		patched, _, err := jsonpatch.Apply(tree, d.Patch)
		if err != nil {
			return nil, fmt.Errorf("admit policy: %w", err)
		}
		object = usher.TreeObject(patched)
	}
	return object.Raw()
}

// An answer is the result of the request.
type answer struct {
	decision usher.Decision
	// patched is the object of the request with the patch applied.
	patched map[string]any
	// aboutPolicy means that the request writes a policy.
	aboutPolicy bool
}

// matched reports whether a rule of a policy matched. Writes of policies meet policy admission.
func (a *answer) matched() bool {
	return a.aboutPolicy || slices.ContainsFunc(a.decision.Findings, func(f usher.Finding) bool { return f.Policy != usher.PolicyRef{} })
}

// applied reports whether a rule of a policy was for the request: rules that read conditions or
// labels of namespaces can find out late that they are not.
func (a *answer) applied() bool {
	return a.aboutPolicy || slices.ContainsFunc(a.decision.Findings, func(f usher.Finding) bool {
		return f.Policy != usher.PolicyRef{} && f.Outcome != usher.Skipped
	})
}

func (s *stage) decide(ctx context.Context, c *Case) (answer, error) {
	r, err := c.Request.For(c.Phase)
	if err != nil {
		return answer{}, err
	}
	decision, err := s.decider.Decide(ctx, r)
	if err != nil {
		return answer{}, fmt.Errorf("decide: %w", err)
	}
	patched, _, err := jsonpatch.Apply(c.Request.Object, decision.Patch)
	if err != nil {
		return answer{}, fmt.Errorf("the patch %s does not apply: %w", text(decision.Patch), err)
	}
	return answer{decision: decision, patched: patched, aboutPolicy: api.IsPolicy(r.Kind)}, nil
}

// vacuous returns why a response that meets the expectation proves nothing. A case that records
// another implementation is only checked if a policy must change something.
func (s *stage) vacuous(c *Case, a answer) []string {
	e := c.Expected()
	switch {
	case a.matched() || a.decision.Verdict == usher.Deny || e.NoMatch:
		return nil
	case c.recorded() && e.expectsEffect() && len(a.decision.Patch) == 0, e.expectsAllowed() && !c.recorded():
		return append([]string{"passes vacuously: no policy matched; write noMatch: true if that is the point"}, s.mismatches(c)...)
	}
	return nil
}

// mismatches lists why rules of the case's phase do not match.
func (s *stage) mismatches(c *Case) []string {
	r, err := c.Request.For(c.Phase)
	if err != nil {
		return nil
	}
	object, err := r.Target().Tree()
	if err != nil {
		return nil
	}
	target := rule.TargetOf(r, object)
	var notes []string
	for _, compiled := range compile.Order(s.compiled) {
		switch mismatch := compiled.Match.Mismatch(&target); {
		case compiled.Policy == usher.PolicyRef{}:
			// A built-in rule.
		case compiled.Phase != c.Phase:
			notes = append(notes, fmt.Sprintf("note: %s %s: is for the phase %s", compiled.Policy, compiled.Name, compiled.Phase))
		case mismatch != "":
			notes = append(notes, fmt.Sprintf("note: %s %s: %s", compiled.Policy, compiled.Name, mismatch))
		}
	}
	return notes
}

// broken are the problems that keep policies from being enforced as written. An invalid selector is
// not one: it selects nothing, as in a cluster.
func (s *stage) broken() []string {
	var broken []string
	for _, c := range s.compiled {
		for _, p := range rule.Errors(c.Problems) {
			if !strings.HasPrefix(p.Field, "spec.resourceSelectors") {
				broken = append(broken, p.String())
			}
		}
	}
	return broken
}

// remarks are what helps to understand why a case failed.
func (s *stage) remarks() []string {
	remarks := s.refusals
	for _, c := range s.compiled {
		for _, p := range c.Problems {
			remarks = append(remarks, "note: "+p.String())
		}
	}
	return remarks
}
