package serve

import (
	"context"
	"net/http"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/admission"
	"github.com/usher-dev/usher/rule"
)

// entry answers for the entry that the path names.
func entry(d usher.Decider, o admission.Options) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, ok := rule.ParseEntry(r.PathValue("entry"))
		if !ok {
			http.NotFound(w, r)
			return
		}
		named := usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
			asked := *r
			asked.Entry = at.String()
			return d.Decide(ctx, &asked)
		})
		if at.Phase == usher.Mutate {
			admission.Mutate(named, o).ServeHTTP(w, r)
			return
		}
		admission.Validate(named, o).ServeHTTP(w, r)
	})
}
