package kcloudlabs

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// secret is the kind whose data is not for everyone.
var secret = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}

// noteSecrets warns of a step that tells what is in a Secret: in a message what is in the object, and in a message or
// the object what is in another one.
func (c *compilation) noteSecrets(step, field string, program rule.Program) {
	traced, ok := program.(rule.Traced)
	if !ok {
		return
	}
	// It comes to kinds by itself.
	acts := !c.excluded.Has("v1", secret.Kind) && (len(c.match) == 0 || slices.ContainsFunc(c.match, func(s rule.Selector) bool { return s.APIVersion == "v1" && s.Kind == secret.Kind }))
	for _, use := range traced.Uses() {
		of := map[rule.Holder]string{rule.CurrentObject: "object", rule.OldObject: "oldObject"}[use.Of]
		switch {
		case !use.Told:
			continue
		case of != "" && c.phase == usher.Validate && acts:
		case use.Of == rule.OtherObject && use.Kind == secret:
			of = secret.Kind
		default:
			continue
		}
		for _, path := range use.Paths {
			if len(path) > 0 && path[0] != "data" && path[0] != "stringData" {
				continue
			}
			below := "data"
			if len(path) > 0 {
				below = path[0]
			}
			p := rule.TellsSecret(join(field, cmp.Or(use.Field, step)), of+"."+below, c.phase == usher.Mutate)
			if !slices.Contains(c.problems, p) {
				c.problems = append(c.problems, p)
			}
		}
	}
}
