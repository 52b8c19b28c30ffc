package gatekeeper

import (
	"context"

	"github.com/usher-dev/usher/internal/convert"
)

// Rewritten is rewritten.
var Rewritten = rewritten

// Templates returns the templates that [Nearest] knows.
func Templates() map[string]string { return nearest() }

// HashOf is hashOf.
var HashOf = hashOf

// PoliciesOfHash converts templates as if their Rego had a hash.
func PoliciesOfHash(ctx context.Context, objects []convert.Foreign, o Options, hash string) []convert.Import {
	return policies(ctx, objects, o, func([]string) string { return hash })
}
