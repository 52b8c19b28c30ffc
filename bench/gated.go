package main

import (
	"fmt"
	"log/slog"
	"net/http"

	"github.com/usher-dev/usher/door/admission"
	"github.com/usher-dev/usher/internal/compile/guard"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/overrun"
)

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
	return handlers, nil
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
