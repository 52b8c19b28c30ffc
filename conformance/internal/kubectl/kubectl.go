// Package kubectl is as much of kubectl as the suite calls: the real "kubectl attach".
package kubectl

import (
	"os"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd/attach"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

// Name is the name by which a program is asked to be kubectl.
const Name = "kubectl"

// Command is kubectl.
func Command() *cobra.Command {
	command := &cobra.Command{Use: Name, Short: "the part of kubectl that the suite calls"}
	flags := genericclioptions.NewConfigFlags(true)
	flags.AddFlags(command.PersistentFlags())
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	command.AddCommand(attach.NewCmdAttach(cmdutil.NewFactory(cmdutil.NewMatchVersionFlags(flags)), streams))
	return command
}
