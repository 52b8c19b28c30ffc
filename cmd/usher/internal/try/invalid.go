package try

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/printable"
)

// invalid returns what API servers refuse of an object that policies have changed, and did not of the object before.
func (f *requestFlags) invalid(before, after map[string]any) []string {
	if after == nil {
		return nil
	}
	var all []string
	kinds, of := f.knownKinds(), result.IdentityOf(after)
	for _, v := range kinds.Check(kinds.Schema(schema.FromAPIVersionAndKind(of.APIVersion, of.Kind)), after, before) {
		switch {
		case v.Labels:
			all = append(all, v.What)
		case !v.Unknown:
			all = append(all, strings.ReplaceAll(strings.Join(v.Path, "."), ".[]", "[]")+" is "+v.What)
		}
	}
	return all
}

// printInvalid tells why API servers refuse what policies have made of an object.
func printInvalid(b *strings.Builder, invalid []string, p cli.Palette) {
	for _, what := range invalid {
		fmt.Fprintf(b, "  %s the API server refuses what policies make of the object: %s\n", cli.Paint(p.Yellow, "warning:"), printable.Line(what))
	}
}
