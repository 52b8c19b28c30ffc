package compile

import (
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/rule"
)

// Unserved returns a warning of an authorization policy of which why says that nobody can ask for it; none if why is
// empty.
func Unserved(why string, c Compiled) []rule.Problem {
	kind, _ := api.KindOf(c.Policy.Object)
	if why == "" || !kind.Authorizes {
		return nil
	}
	return []rule.Problem{c.Place(rule.Problem{
		Severity: rule.Warning, Field: "kind", What: "it decides nothing here: " + why,
		Do: "have API servers ask a server that authorizes, as docs/authorization.md says; an ObjectPolicy or ClusterObjectPolicy decides writes of objects without that",
	})}
}
