package policytest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	kjson "sigs.k8s.io/json"
)

// errNoParams is the error of a case whose params would do nothing.
var errNoParams = errors.New("params: no policy of the case has a binding with params in place")

// setParams sets the params of the case in the bindings of policies that have params in place. Other
// params of these bindings stay.
func (c *Case) setParams(policies []json.RawMessage) error {
	if c.Params == nil {
		return nil
	}
	set := false
	for i, document := range policies {
		var policy map[string]any
		if err := kjson.UnmarshalCaseSensitivePreserveInts(document, &policy); err != nil {
			return fmt.Errorf("decode policies: %w", err)
		}
		if !c.setIn(policy) {
			continue
		}
		changed, err := json.Marshal(policy)
		if err != nil {
			return fmt.Errorf("encode policies: %w", err)
		}
		policies[i], set = changed, true
	}
	if !set {
		return errNoParams
	}
	return nil
}

// setIn reports whether a binding of the policy has params in place.
func (c *Case) setIn(policy map[string]any) bool {
	spec, _ := policy["spec"].(map[string]any)
	bindings, _ := spec["bindings"].([]any)
	set := false
	for _, b := range bindings {
		binding, _ := b.(map[string]any)
		if params, ok := binding["params"].(map[string]any); ok {
			maps.Copy(params, c.Params)
			set = true
		}
	}
	return set
}
