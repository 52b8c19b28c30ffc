package plugin

import (
	"context"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/apiserver"
	"github.com/usher-dev/usher/live"
)

// Rules lists what the authorization policies that l has in force allow a user, for the
// option of that name of [apiserver.NewAuthorizer].
func Rules(l *live.Live) apiserver.Lister {
	return apiserver.ListerFunc(func(_ context.Context, user usher.User, namespace string) (apiserver.Rules, error) {
		granted, err := l.Grants(user, namespace)
		if err != nil {
			return apiserver.Rules{}, err
		}
		rules := apiserver.Rules{Incomplete: granted.Incomplete}
		for _, g := range granted.Allowed {
			if len(g.Paths) > 0 {
				rules.Paths = append(rules.Paths, apiserver.PathRule{Verbs: g.Verbs, Paths: g.Paths})
				continue
			}
			rules.Resources = append(rules.Resources, apiserver.ResourceRule{
				Verbs: g.Verbs, Groups: g.Groups, Resources: g.Resources, Names: g.Names,
			})
		}
		return rules, nil
	})
}
