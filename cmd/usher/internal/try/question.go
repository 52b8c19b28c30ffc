package try

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"k8s.io/apimachinery/pkg/api/meta"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/objects"
	"github.com/usher-dev/usher/cmd/usher/internal/user"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

// requestFlags define which requests are made for which objects.
type requestFlags struct {
	files, old            []string
	operation             string
	resource, subresource string
	namespace, name       string
	user                  user.Flags
	asker                 asker
	dryRun                bool
	// mapper has the kinds of the cluster, if there is one, and kinds are those of Kubernetes, once needed.
	mapper meta.RESTMapper
	kinds  *kind.Set
	// registered is what the registration in the cluster leaves out, nil if that is not known.
	registered *webhookconfig.Options
	// slipped means that objects have kinds or fields that do not exist.
	slipped bool
	// known are the objects that were read, those before updates last.
	known []map[string]any
	// input is what the files have, once it is read: the standard input can be read once.
	input *input
}

// An input is the objects of the command line and their old versions, or why they cannot be read.
type input struct {
	objects, olds []objects.Input
	err           error
}

// namespaces returns the namespaces of the objects, each once; that of the command line if they name none.
func (in *input) namespaces(given string) []string {
	var all []string
	for i := range in.objects {
		namespace := namespaceOf(in.objects[i].Object)
		if review := in.objects[i].Review; review != nil && review.Namespace != "" {
			namespace = review.Namespace
		}
		if namespace != "" && !slices.Contains(all, namespace) {
			all = append(all, namespace)
		}
	}
	if len(all) == 0 {
		return []string{given}
	}
	return all
}

// register adds the flags. Namespace is the default of the flag.
func (f *requestFlags) register(cmd *cobra.Command, namespace string) {
	flags := cmd.Flags()
	objects.RegisterFlag(flags, &f.files)
	flags.StringVar(&f.operation, "operation", "", "CREATE, UPDATE, DELETE or CONNECT (default: CREATE, or UPDATE with --old)")
	cli.Offer(cmd, "operation", "CREATE", "UPDATE", "DELETE", "CONNECT")
	flags.StringArrayVar(&f.old, "old", nil, "file or folder with the objects before an UPDATE (repeatable)")
	flags.StringVar(&f.resource, "resource", "", "resource of the request, if it does not follow from the kind: deployments.apps for a Scale")
	flags.StringVar(&f.subresource, "subresource", "", "subresource of the request, such as exec, scale or status")
	flags.StringVarP(&f.namespace, "namespace", "n", namespace, "namespace of the request; for objects that have none")
	flags.StringVar(&f.name, "name", "", "name of the request; for objects that have none, such as those of a CONNECT")
	f.user.Register(flags)
	flags.BoolVar(&f.dryRun, "dry-run", false, "mark the request as a dry run")
}

// complete checks the flags, and adds args to the files of -f.
func (f *requestFlags) complete(args []string) error {
	f.files = append(f.files, args...)
	f.operation = strings.ToUpper(f.operation)
	switch {
	case f.operation == "" && len(f.old) > 0:
		f.operation = string(usher.Update)
	case f.operation == "":
		f.operation = string(usher.Create)
	}
	if !slices.Contains(usher.Operations(), usher.Operation(f.operation)) {
		return fmt.Errorf("--operation %s: use one of CREATE, UPDATE, DELETE, CONNECT", f.operation)
	}
	if len(f.old) > 0 && f.operation != string(usher.Update) {
		return fmt.Errorf("--old is for --operation UPDATE, not %s", f.operation)
	}
	return nil
}

// read reads the objects and their old versions, the first time.
func (f *requestFlags) read(cmd *cobra.Command, s cli.Streams) *input {
	if f.input != nil {
		return f.input
	}
	f.input = &input{err: cli.ReadsStdinOnce(f.files, f.old)}
	if f.input.err == nil {
		f.input.objects, f.input.err = objects.Read(cmd, s, f.files)
	}
	if f.input.err == nil && len(f.old) > 0 {
		if f.input.olds, f.input.err = objects.Read(cmd, s, f.old); f.input.err != nil {
			f.input.err = fmt.Errorf("--old: %w", f.input.err)
		}
	}
	return f.input
}
