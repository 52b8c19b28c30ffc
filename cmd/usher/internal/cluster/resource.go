package cluster

import (
	"cmp"
	"slices"
	"strings"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/rule"
)

// NearResource returns the resource that is meant by the name of a kind, or by one that is misspelled;
// empty if there is a resource of this name, or none that is similar.
func NearResource(name string) string {
	var names []string
	singular := ""
	for r := range kind.Recorded().Resources() {
		switch {
		case r.Name == name:
			return ""
		case slices.Contains(r.Short, name) && !strings.Contains(r.Name, "/"):
			singular = r.Name
		}
		names = append(names, r.Name)
	}
	for _, k := range api.Kinds() {
		if k.Resource == name {
			return ""
		}
		names = append(names, k.Resource)
	}
	return cmp.Or(singular, rule.Nearest(name, names))
}
