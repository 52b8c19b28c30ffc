package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/usher-dev/usher/cmd/internal/cli"
)

func newVersion(s cli.Streams) *cobra.Command {
	var output cli.OutputFlag
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Example: `  usher version
  usher version -o json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := cli.BuildVersion()
			if output.Value != "text" {
				return output.Encode(s.Out, v)
			}
			_, err := fmt.Fprintln(s.Out, "usher", v)
			return err
		},
	}
	output.Register(cmd, "text", "json", "yaml")
	return cmd
}
