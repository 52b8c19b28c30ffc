package live

import (
	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

// EntryOf returns the name of the entry at which a request is decided as it is: for doors
// that see every request, and convert no objects.
func EntryOf(r *usher.Request) string {
	at := rule.CompleteEntryOf(r)
	if api.IsGroup(r.Resource.Group) {
		at.Part = webhookconfig.PartOf(r)
	}
	return at.String()
}
