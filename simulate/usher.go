package simulate

import (
	"context"
	"log/slog"
	"net/http"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/admission"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

// AnsweredBy has a decider answer for the webhooks of Usher, as its server would, each for
// the entry that it is: it is for [Options.Local]. The simulated cluster has to have the webhook configurations of Usher:
// nothing is sent without them, which is an error of [New]. 'usher simulate' adds those that a server would write.
func AnsweredBy(d usher.Decider) func(configuration, webhook string) http.Handler {
	quiet := admission.Options{Log: slog.New(slog.DiscardHandler)}
	return func(_, webhook string) http.Handler {
		at, ok := webhookconfig.EntryOf(webhook)
		if !ok {
			return nil
		}
		entry := usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
			asked := *r
			asked.Entry = at.String()
			return d.Decide(ctx, &asked)
		})
		if at.Phase == usher.Mutate {
			return admission.Mutate(entry, quiet)
		}
		return admission.Validate(entry, quiet)
	}
}
