package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/admission"
	evaluator "github.com/usher-dev/usher/internal/candidate"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/compile/guard"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/overrun"
)

// candidate is one for a policy of the same name.
const candidate = `{"apiVersion":"usher.dev/v1alpha1","kind":"ClusterPolicyCandidate","metadata":{"name":"c"},"spec":{"policies":[%s]}}`

// gatedHandlers are the webhooks that the gate compares: the door and everything behind it, without
// network, metrics and log.
func gatedHandlers() (map[string]http.Handler, error) {
	handlers := map[string]http.Handler{ordinary: http.HandlerFunc(answerOrdinary)}
	targets := []target{
		{name: "no policy", paths: []string{"/validate"}},
		{name: "1000 that do not match", policies: missing(1000), paths: []string{"/mutate"}},
	}
	for _, l := range languages {
		targets = append(targets, l.target(1))
		if limits[l.name][1] > 0 {
			targets = append(targets, l.target(100))
		}
	}
	restricted, err := restrictedTarget()
	if err != nil {
		return nil, err
	}
	for _, t := range append(targets, restricted) {
		h, err := t.handler()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
		handlers[t.name] = h
	}
	for name, add := range map[string]string{"1 ClusterObjectPolicy without candidates": "", "1 ClusterObjectPolicy with a candidate": candidate} {
		h, err := withCandidates(add)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		handlers[name] = h
	}
	return handlers, nil
}

// withCandidates is the webhook of one policy, which has candidates evaluated after each answer.
func withCandidates(candidates string) (http.Handler, error) {
	at := slices.IndexFunc(languages, func(l language) bool { return l.name == "ClusterObjectPolicy" })
	text := languages[at].policies(1)
	rules, err := rulesIn(text)
	if err != nil {
		return nil, err
	}
	written := text
	if candidates != "" {
		written += fmt.Sprintf(candidates, strings.TrimSuffix(text, "\n---\n"))
	}
	policies, err := policiesIn(written)
	if err != nil {
		return nil, err
	}
	all, problems := compile.Options{}.All(context.Background(), policies)
	if len(problems) > 0 {
		return nil, fmt.Errorf("compile policies: %v", problems)
	}
	e := evaluator.New(evaluator.Options{})
	offer := e.Update(all, func() []compile.Compiled { return nil })
	decider := guard.Wrap(engine.New(index.New(rules), nil, engine.Options{Overruns: overrun.New(overrun.Options{Idle: overrun.ManyIdle})}), guard.Options{})
	door := admission.Validate(usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
		d, err := decider.Decide(ctx, r)
		if err == nil {
			offer(r, &d)
		}
		return d, err
	}), admission.Options{Log: slog.New(slog.DiscardHandler)})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		door.ServeHTTP(w, r)
		e.Drain(r.Context())
	}), nil
}

// handler is the webhook of a target in process.
func (t target) handler() (http.Handler, error) {
	rules, err := rulesIn(t.policies)
	if err != nil {
		return nil, err
	}
	overruns := overrun.New(overrun.Options{Idle: overrun.ManyIdle})
	decider := guard.Wrap(engine.New(index.New(rules), nil, engine.Options{Overruns: overruns}), guard.Options{})
	options := admission.Options{Log: slog.New(slog.DiscardHandler)}
	if t.paths[0] == "/mutate" {
		return admission.Mutate(decider, options), nil
	}
	return admission.Validate(decider, options), nil
}
