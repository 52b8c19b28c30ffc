package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/live"
	"github.com/usher-dev/usher/internal/overrun"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/source"
)

// manyPolicies is how many policies a large cluster has.
const manyPolicies = 10_000

// A part is something that a decision is made of, or an update of policies.
type part struct {
	name  string
	limit time.Duration
	// measure returns the CPU time of one run.
	measure func() (time.Duration, error)
}

// writeInProcess measures the parts of decisions, without network, on the pod of a review.
func writeInProcess(ctx context.Context, w io.Writer, rounds int, body []byte) error {
	request, err := requestIn(body)
	if err != nil {
		return err
	}
	tree, err := request.Object.Tree()
	if err != nil {
		return err
	}
	in := &rule.Input{Request: request, Object: tree, Facts: &fact.Known{}}
	parts := []part{{
		name: fmt.Sprintf("match with %d policies that do not", manyPolicies), limit: time.Microsecond,
		measure: func() (time.Duration, error) { return matching(request, tree) },
	}}
	for i, limit := range []time.Duration{0, 5, 10, 150, 5, 10, 150, 5, 5} {
		l := languages[i]
		parts = append(parts, part{
			name: "a rule: " + l.name, limit: limit * time.Microsecond, //nolint:durationcheck // the list above is in microseconds
			measure: func() (time.Duration, error) { return l.running(ctx, in) },
		})
	}
	parts = append(parts, part{
		name: "a decision by " + restricted, limit: 20 * time.Microsecond,
		measure: func() (time.Duration, error) { return deciding(ctx, request.Object) },
	}, part{
		name: fmt.Sprintf("one policy of %d changes", manyPolicies), limit: 100 * time.Millisecond,
		measure: func() (time.Duration, error) { return editing(ctx) },
	})
	if _, err := fmt.Fprintf(w, "\n## In process\n\nCPU time, the least of %d rounds; a change of policies in elapsed time, from when its source has it.\n\n| | time | target |\n|---|---|---|\n", rounds); err != nil {
		return err
	}
	for _, p := range parts {
		var all []time.Duration
		for range rounds {
			took, err := p.measure()
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			all = append(all, took)
		}
		took, limit := slices.Min(all), ""
		if p.limit > 0 {
			limit = fmt.Sprintf("≤ %s %s", short(p.limit), met(took <= p.limit))
		}
		if _, err := fmt.Fprintf(w, "| %s | %s | %s |\n", p.name, short(took), limit); err != nil {
			return err
		}
	}
	return nil
}

// requestIn is the request of a review to create something, decoded.
func requestIn(body []byte) (*usher.Request, error) {
	var review struct {
		Request struct {
			Object json.RawMessage `json:"object"`
		} `json:"request"`
	}
	if err := json.Unmarshal(body, &review); err != nil {
		return nil, err
	}
	return &usher.Request{Phase: usher.Mutate, Operation: usher.Create, Object: usher.RawObject(review.Request.Object)}, nil
}

// each returns the CPU time of one call of f.
func each(calls int, f func() error) (time.Duration, error) {
	start := ownCPU()
	for range calls {
		if err := f(); err != nil {
			return 0, err
		}
	}
	return (ownCPU() - start) / time.Duration(calls), nil
}

func matching(r *usher.Request, tree map[string]any) (time.Duration, error) {
	rules, err := rulesIn(missing(manyPolicies))
	if err != nil {
		return 0, err
	}
	ix := index.New(rules)
	passes := ix.Passes(usher.Mutate)
	var found []*rule.Rule
	return each(100_000, func() error {
		s := rule.TargetOf(r, tree)
		found = found[:0]
		for _, pass := range passes {
			found = ix.Matching(found, usher.Mutate, pass, &s)
		}
		if slices.ContainsFunc(found, func(r *rule.Rule) bool { return r.Policy != (usher.PolicyRef{}) }) {
			return errors.New("policies match")
		}
		return nil
	})
}

// running runs the one step of a rule.
func (l language) running(ctx context.Context, in *rule.Input) (time.Duration, error) {
	rules, err := rulesIn(l.policies(1))
	if err != nil {
		return 0, err
	}
	var steps []rule.Step
	for i := range rules {
		// Those for the pods of workloads are not for pods.
		if rules[i].Policy != (usher.PolicyRef{}) && rules[i].Pod == nil {
			steps = append(steps, rules[i].Steps...)
		}
	}
	if len(steps) != 1 {
		return 0, fmt.Errorf("there are %d steps", len(steps))
	}
	return each(2000, func() error {
		outcome, err := steps[0].Program.Run(ctx, in)
		if err == nil && !l.validates() && len(outcome.Patch) != 1 {
			err = fmt.Errorf("it makes %d operations", len(outcome.Patch))
		}
		return err
	})
}

// deciding decides the creation of a pod, which is decoded, by all policies of the pack.
func deciding(ctx context.Context, pod *usher.Object) (time.Duration, error) {
	policies, _, err := packPolicies(restricted)
	if err != nil {
		return 0, err
	}
	rules, err := rulesIn(policies)
	if err != nil {
		return 0, err
	}
	r := rule.PodCreation(usher.Validate)
	r.Object, r.Namespace = pod, "default"
	e := engine.New(index.New(rules), nil, engine.Options{Overruns: overrun.New(overrun.Options{Idle: overrun.ManyIdle})})
	return each(2000, func() error {
		decision, err := e.Decide(ctx, &r)
		if err == nil && (decision.Verdict != usher.Allow || len(decision.Findings) < 15) {
			err = fmt.Errorf("%d rules decide: %s %s", len(decision.Findings), decision.Verdict, decision.Message)
		}
		return err
	})
}

// rulesIn returns the rules of policies, which must have no problems: a policy with the name of another
// does not count in a server.
func rulesIn(text string) ([]rule.Rule, error) {
	policies, err := policiesIn(text)
	if err != nil {
		return nil, err
	}
	rules, problems := compile.Policies(policies)
	if len(problems) > 0 {
		return nil, fmt.Errorf("compile policies: %v", problems)
	}
	return rules, nil
}

// edits is how often a policy is changed to measure how long that takes.
const edits = 5

// editing returns the shortest time until a changed policy decides.
func editing(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	policies, err := policiesIn(missing(manyPolicies))
	if err != nil {
		return 0, err
	}
	edited, err := policiesIn(languages[0].policies(1))
	if err != nil {
		return 0, err
	}
	updated := make(chan live.Status, 2)
	l := live.New(live.Options{OnUpdate: func(s live.Status) { updated <- s }})
	sets, done := make(updates), make(chan error, 1)
	go func() { done <- l.Run(ctx, sets) }()
	sets <- source.Set{Policies: policies}
	<-updated
	var took []time.Duration
	for i := range edits {
		changed := policies
		if i%2 == 0 {
			changed = append(policies[:len(policies)-1:len(policies)-1], edited...)
		}
		start := time.Now()
		sets <- source.Set{Policies: changed}
		status := <-updated
		took = append(took, time.Since(start))
		if want := int64(i + 2); status.Generation != want {
			return 0, fmt.Errorf("the policies are of generation %d, not %d", status.Generation, want)
		}
	}
	cancel()
	return slices.Min(took), <-done
}

// updates are a source.
type updates chan source.Set

func (u updates) Run(ctx context.Context, update func(source.Set)) error {
	for {
		select {
		case set := <-u:
			update(set)
		case <-ctx.Done():
			return nil
		}
	}
}

// policiesIn returns the policies in a text.
func policiesIn(text string) ([]api.Policy, error) {
	var policies []api.Policy
	for document := range strings.SplitSeq(text, "\n---\n") {
		if document == "" {
			continue
		}
		policy, err := api.Decode([]byte(document))
		if err != nil {
			return nil, err
		}
		policies = append(policies, policy)
	}
	return policies, nil
}
