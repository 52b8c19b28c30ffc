package write

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/internal/assist"
	"github.com/usher-dev/usher/internal/assist/lsp"
	"github.com/usher-dev/usher/internal/check"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/lang/worker"
	"github.com/usher-dev/usher/internal/trial/isolated"
)

type lspFlags struct {
	files  []string
	limits policies.Limits
}

// LSP returns usher lsp.
func LSP(s cli.Streams) *cobra.Command {
	var f lspFlags
	cmd := &cobra.Command{
		Use:        "lsp",
		SuggestFor: []string{"language-server", "editor"},
		Short:      "Help editors with policies",
		Long: `Lsp is a language server: an editor starts it, and speaks the Language Server Protocol
with it on the standard input and output. It reports what check reports, while a policy is
written, completes fields, expressions and values, and says what they are. docs/editors.md
has the configuration of editors.

CustomResourceDefinitions in files of --file say what objects of their kinds are like.

The exit status is 0 if the editor has ended the server as the protocol says, and 2 if not.`,
		Example: `  usher lsp
  usher lsp -f crds/`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, s) },
	}
	registerObjects(cmd, &f.files)
	f.limits.RegisterWithTimeout(cmd)
	return cmd
}

func (f *lspFlags) run(cmd *cobra.Command, s cli.Streams) error {
	// Whatever a file says, it is tried where it can be stopped.
	workers := worker.New(worker.Options{Workers: 1})
	defer workers.Close()
	workers.Hold()
	service, err := Assistant(f.files, &f.limits, isolated.New(workers, isolated.Options{}))
	if err != nil {
		return err
	}
	return lsp.Serve(cmd.Context(), s.In, cli.Pipe(s.Out), service, cli.BuildVersion().Version)
}

// Assistant returns what helps editors with policies within limits, which a checker tries before they are compiled. Files
// are those of objects and CustomResourceDefinitions.
func Assistant(files []string, limits *policies.Limits, checker compile.Checker) (*assist.Service, error) {
	compiler, err := limits.Compiler()
	if err != nil {
		return nil, err
	}
	try, defined, err := newTrial(files, nil)
	if err != nil {
		return nil, err
	}
	compiler.Options.Checker, compiler.Options.Depth = checker, compile.Trying
	return assist.New(assist.Options{
		Checker: func() assist.Checker { return check.NewSession(compiler, try) },
		Kinds:   func() *kind.Set { return kind.Recorded().With(defined) },
		Types:   slices.Collect(maps.Values(scheme.Scheme.AllKnownTypes())),
	}), nil
}
