package objects

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/usher-dev/usher/cmd/internal/cli"
)

// LacksDefault reports whether the error of a rule is that an object has no such field, which may be because the object is
// as somebody wrote it.
func LacksDefault(object map[string]any, err string) bool {
	metadata, ok := object["metadata"].(map[string]any)
	return ok && metadata["uid"] == nil && strings.Contains(err, "no such key")
}

// NoteDefaults prints to s.Err how objects of files get the defaults that API servers set.
func NoteDefaults(cmd *cobra.Command, s cli.Streams) {
	cli.Notef(cmd, s, "note", "API servers set defaults before they ask policies, and objects of files lack them: a field that a rule does not find may be one; "+
		"the output of 'kubectl create -f FILE --dry-run=server -o yaml' has them")
}
