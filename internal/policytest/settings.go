package policytest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
)

// Errors of a case with params or actions that would do nothing.
var (
	errNoParams  = errors.New("params: no policy of the case has a binding with params in place")
	errNoActions = errors.New("validationActions: no policy of the case has a binding with actions")
)

// Settings replace those of the bindings of object policies.
type Settings struct {
	// Params replace those of the same names in bindings that have params in place.
	Params map[string]any `json:"params,omitempty"`
	// ValidationActions replace those of bindings that have some.
	ValidationActions []string `json:"validationActions,omitempty"`
}

// replace sets the params in the bindings of policies that have params in place, and the actions in those that
// have actions. Other params of these bindings stay.
func (s *Settings) replace(policies []json.RawMessage) error {
	if s.Params == nil && s.ValidationActions == nil {
		return nil
	}
	params, actions := s.Params == nil, s.ValidationActions == nil
	for i, document := range policies {
		var policy map[string]any
		if err := kjson.UnmarshalCaseSensitivePreserveInts(document, &policy); err != nil {
			return fmt.Errorf("decode policies: %w", err)
		}
		withParams, withActions := s.setIn(policy)
		if !withParams && !withActions {
			continue
		}
		changed, err := json.Marshal(policy)
		if err != nil {
			return fmt.Errorf("encode policies: %w", err)
		}
		policies[i], params, actions = changed, params || withParams, actions || withActions
	}
	switch {
	case !params:
		return errNoParams
	case !actions:
		return errNoActions
	}
	return nil
}

// setIn reports whether it has set params or actions in a binding of the policy.
func (s *Settings) setIn(policy map[string]any) (params, actions bool) {
	spec, _ := policy["spec"].(map[string]any)
	bindings, _ := spec["bindings"].([]any)
	for _, b := range bindings {
		binding, _ := b.(map[string]any)
		if own, ok := binding["params"].(map[string]any); ok && s.Params != nil {
			maps.Copy(own, s.Params)
			params = true
		}
		if binding["validationActions"] != nil && s.ValidationActions != nil {
			binding["validationActions"] = s.ValidationActions
			actions = true
		}
	}
	return params, actions
}

// hides reports whether a case decides the same with the mutant, because its settings replace all that is
// different in it.
func (s *Settings) hides(policy, mutant map[string]any) bool {
	if mutant == nil || s.Params == nil && s.ValidationActions == nil {
		return false
	}
	before, after := runtime.DeepCopyJSON(policy), runtime.DeepCopyJSON(mutant)
	s.setIn(before)
	s.setIn(after)
	return reflect.DeepEqual(before, after)
}
