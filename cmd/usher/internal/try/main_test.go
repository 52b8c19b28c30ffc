package try_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/observe"
	"github.com/usher-dev/usher/cmd/usher/internal/try"
	"github.com/usher-dev/usher/internal/lang/cue"
)

// TestMain lets the evaluator of CUE run in processes of its own, and shells run the commands as those of usher.
func TestMain(m *testing.M) {
	cue.Main()
	if filepath.Base(os.Args[0]) == "usher" {
		os.Exit(cli.Execute(context.Background(), newRoot, cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Args[1:]))
	}
	os.Exit(m.Run())
}

func newRoot(s cli.Streams) *cobra.Command {
	root := &cobra.Command{Use: "usher"}
	root.AddCommand(try.Decide(s), try.Explain(s), try.Exempt(s), try.Library(s, observe.Cluster))
	return root
}
